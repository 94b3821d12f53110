! SPDX-License-Identifier: Apache-2.0 OR MIT
!
! A Fortran program with MPI that goes on where it was when it is started again. Its argument is the number of steps; where
! its checkpoints go is said by variables, such as SUREFOOT_CHECKPOINT_DURABLE, or by the host's file of settings.
program checkpoint_mpi
  use mpi
  use surefoot_checkpoint
  use surefoot_checkpoint_mpi
  implicit none

  real(c_double), target, save :: cells(100000) = 0
  integer(c_int64_t), target, save :: step = 0
  type(surefoot_group), target, save :: group
  type(c_ptr) :: config, job
  type(surefoot_saved) :: saved
  type(surefoot_restored) :: restored
  character(len=100) :: steps_text
  integer(c_int64_t) :: steps
  real(c_double) :: own, total
  integer :: i, error, unread
  integer(c_int) :: status, is_told = 0

  call get_command_argument(1, steps_text)
  read (steps_text, *, iostat=unread) steps
  call MPI_Init(error)
  if (unread /= 0) then
    print '(a)', 'usage: checkpoint_mpi STEPS'
    call MPI_Abort(MPI_COMM_WORLD, 2, error)
  end if
  call surefoot_mpi_group_open(MPI_COMM_WORLD, group, error)
  if (error /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 2, error)

  config = surefoot_config_new('fortran-mpi'//c_null_char)
  if (.not. c_associated(config)) call must(-1_c_int)
  call must(surefoot_checkpoint_open(config, c_loc(group), job))
  call must(surefoot_config_free(config))
  call must(surefoot_checkpoint_protect(job, 'step'//c_null_char, c_loc(step), 8_c_size_t))
  call must(surefoot_checkpoint_protect(job, 'cells'//c_null_char, c_loc(cells), 8_c_size_t*size(cells)))

  status = surefoot_checkpoint_restart(job, restored)
  call must(status)
  if (status == surefoot_status_ok) print '(a)', surefoot_text(surefoot_checkpoint_report(job))

  ! With the setting sigterm=checkpoint SIGTERM does not end it: the next save is durable, and says so.
  do while (step < steps .and. is_told == 0)
    do i = 1, size(cells)
      cells(i) = cos(cells(i) + i + group%rank)
    end do
    step = step + 1
    ! All ranks call it, and it succeeds on all or on none; a failed save leaves the program as it was.
    if (mod(step, 10_c_int64_t) == 0) then
      if (surefoot_checkpoint_save(job, saved) /= surefoot_status_ok) then
        print '(a)', surefoot_text(surefoot_error_text(job))
      end if
      call say_notices()
      call must(surefoot_checkpoint_told_to_end(job, is_told))
    end if
  end do
  own = sum(cells)
  call MPI_Reduce(own, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
  if (group%rank == 0) print '(a, i0, a, z16.16)', 'after ', step, ' steps the sum is ', transfer(total, 0_c_int64_t)

  call must(surefoot_checkpoint_finish(job))
  call must(surefoot_checkpoint_close(job))
  call surefoot_mpi_group_close(group, error)
  call MPI_Finalize(error)

contains

  ! What happened in the background, such as a checkpoint that became durable.
  subroutine say_notices()
    type(c_ptr) :: notice

    do
      notice = surefoot_checkpoint_notice(job)
      if (.not. c_associated(notice)) exit
      print '(a)', surefoot_text(notice)
    end do
  end subroutine

  subroutine must(status)
    integer(c_int), intent(in) :: status
    integer :: ignored

    if (status < 0) then
      print '(a)', surefoot_text(surefoot_error_text(c_null_ptr))
      call MPI_Abort(MPI_COMM_WORLD, 2, ignored)
    end if
  end subroutine

end program
