! SPDX-License-Identifier: Apache-2.0 OR MIT
!
! A Fortran program that goes on where it was when it is started again. Its first argument is the directory of the
! memory tier, its second the number of steps.
program checkpoint
  use surefoot_checkpoint
  implicit none

  real(c_double), target, save :: cells(100000) = 0
  integer(c_int64_t), target, save :: step = 0
  type(c_ptr) :: config, job
  type(surefoot_saved) :: saved
  type(surefoot_restored) :: restored
  character(len=1000) :: directory, steps_text
  integer(c_int64_t) :: steps
  integer(c_int) :: status, is_told = 0
  integer :: i, unread

  call get_command_argument(1, directory)
  call get_command_argument(2, steps_text)
  read (steps_text, *, iostat=unread) steps
  if (unread /= 0) then
    print '(a)', 'usage: checkpoint DIRECTORY STEPS'
    stop 2
  end if

  config = surefoot_config_new('fortran'//c_null_char)
  call must(surefoot_config_set(config, 'memory'//c_null_char, trim(directory)//c_null_char))
  call must(surefoot_config_set(config, 'policy'//c_null_char, 'memory'//c_null_char))
  call must(surefoot_checkpoint_open(config, c_null_ptr, job))
  call must(surefoot_config_free(config))
  call must(surefoot_checkpoint_protect(job, 'step'//c_null_char, c_loc(step), 8_c_size_t))
  call must(surefoot_checkpoint_protect(job, 'cells'//c_null_char, c_loc(cells), 8_c_size_t*size(cells)))

  status = surefoot_checkpoint_restart(job, restored)
  call must(status)
  if (status == surefoot_status_ok) print '(a)', surefoot_text(surefoot_checkpoint_report(job))

  ! With the setting sigterm=checkpoint SIGTERM does not end it: the next save is durable, and says so.
  do while (step < steps .and. is_told == 0)
    do i = 1, size(cells)
      cells(i) = cos(cells(i) + i)
    end do
    step = step + 1
    if (mod(step, 10_c_int64_t) == 0) then
      ! A failed save leaves the program as it was: it goes on.
      if (surefoot_checkpoint_save(job, saved) /= surefoot_status_ok) then
        print '(a)', surefoot_text(surefoot_error_text(job))
      end if
      call say_notices()
      call must(surefoot_checkpoint_told_to_end(job, is_told))
    end if
  end do
  print '(a, i0, a, z16.16)', 'after ', step, ' steps the sum is ', transfer(sum(cells), 0_c_int64_t)

  call must(surefoot_checkpoint_finish(job))
  call must(surefoot_checkpoint_close(job))

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

    if (status < 0) then
      print '(a)', surefoot_text(surefoot_error_text(c_null_ptr))
      stop 2
    end if
  end subroutine

end program
