! SPDX-License-Identifier: Apache-2.0 OR MIT
!
! How the ranks of an MPI communicator take checkpoints together, for Fortran: what bindings/c/surefoot_checkpoint_mpi.h is
! for C. The library itself knows no MPI, so this is compiled with the program, by the same mpif90.
!
!     modules=$(pkg-config --variable=fortrandir surefoot)
!     mpif90 -o program $modules/surefoot_checkpoint.f90 $modules/surefoot_checkpoint_mpi.f90 program.f90 \
!         $(pkg-config --libs surefoot)
!
! Programs that use mpi_f08 pass comm%MPI_VAL.
module surefoot_checkpoint_mpi
  use, intrinsic :: iso_c_binding
  use mpi
  use surefoot_checkpoint
  implicit none
  private
  public :: surefoot_mpi_group_open, surefoot_mpi_group_close

  ! MPI counts in integers of 32 bits: longer data goes in pieces.
  integer(c_size_t), parameter :: piece_bytes = 1073741824_c_size_t
  integer, parameter :: tag = 17191
  integer, parameter :: byte = c_int8_t

  ! What MPI may still be sending.
  type :: posted
    integer :: request
    integer(byte), allocatable :: data(:)
    type(posted), pointer :: next => null()
  end type

  ! The communicator, how many messages went to each rank and came from it, and what a post leaves behind.
  type :: state
    integer :: comm
    integer, allocatable :: sent(:), received(:)
    type(posted), pointer :: posts => null()
  end type

contains

  ! Makes a group of a communicator's ranks. Collective. Close it with surefoot_mpi_group_close, after the handles that were
  ! opened with it; group has the attribute target, and is passed to surefoot_checkpoint_open by c_loc.
  !
  ! error is MPI_SUCCESS, or what MPI says; then the group must not be used.
  subroutine surefoot_mpi_group_open(comm, group, error)
    integer, intent(in) :: comm
    type(surefoot_group), intent(out) :: group
    integer, intent(out) :: error
    type(state), pointer :: own
    integer :: rank, ranks, ignored

    allocate (own)
    call MPI_Comm_dup(comm, own%comm, error)
    if (error /= MPI_SUCCESS) then
      deallocate (own)
      return
    end if
    call MPI_Comm_set_errhandler(own%comm, MPI_ERRORS_RETURN, error)
    if (error == MPI_SUCCESS) call MPI_Comm_rank(own%comm, rank, error)
    if (error == MPI_SUCCESS) call MPI_Comm_size(own%comm, ranks, error)
    if (error /= MPI_SUCCESS) then
      call MPI_Comm_free(own%comm, ignored)
      deallocate (own)
      return
    end if
    allocate (own%sent(ranks), own%received(ranks))
    own%sent = 0
    own%received = 0
    group%context = c_loc(own)
    group%rank = int(rank, c_int32_t)
    group%size = int(ranks, c_int32_t)
    group%broadcast = c_funloc(broadcast)
    group%all_gather = c_funloc(all_gather)
    group%exchange = c_funloc(exchange)
    group%post = c_funloc(post)
  end subroutine

  ! Frees what surefoot_mpi_group_open made. Collective: it returns when all ranks have called it. May be called twice.
  subroutine surefoot_mpi_group_close(group, error)
    type(surefoot_group), intent(inout) :: group
    integer, intent(out) :: error
    type(state), pointer :: own
    integer :: ignored

    error = MPI_SUCCESS
    if (.not. c_associated(group%broadcast)) return
    call c_f_pointer(group%context, own)
    call receive_rest(own, error)
    if (error == MPI_SUCCESS) then
      call forget_posts(own, .true.)
      call MPI_Comm_free(own%comm, error)
    else
      call MPI_Comm_free(own%comm, ignored)
    end if
    deallocate (own)
    group = surefoot_group()
  end subroutine

  ! Receives what ranks posted and nobody took: the communicator must have no message under way when it is freed.
  subroutine receive_rest(own, error)
    type(state), pointer, intent(in) :: own
    integer, intent(out) :: error
    integer, allocatable :: coming(:)
    integer(byte), allocatable :: rest(:)
    integer :: rank, bytes, of_message(MPI_STATUS_SIZE)

    allocate (coming(size(own%sent)))
    call MPI_Alltoall(own%sent, 1, MPI_INTEGER, coming, 1, MPI_INTEGER, own%comm, error)
    do rank = 1, size(coming)
      do while (error == MPI_SUCCESS .and. own%received(rank) < coming(rank))
        call MPI_Probe(rank - 1, tag, own%comm, of_message, error)
        if (error /= MPI_SUCCESS) return
        call MPI_Get_count(of_message, MPI_BYTE, bytes, error)
        allocate (rest(max(bytes, 1)))
        call MPI_Recv(rest, bytes, MPI_BYTE, rank - 1, tag, own%comm, of_message, error)
        deallocate (rest)
        own%received(rank) = own%received(rank) + 1
      end do
    end do
  end subroutine

  ! Forgets the posts that are on their way, or waits for all of them.
  subroutine forget_posts(own, all)
    type(state), pointer, intent(in) :: own
    logical, intent(in) :: all
    type(posted), pointer :: one, kept, next
    logical :: done
    integer :: error

    kept => null()
    one => own%posts
    do while (associated(one))
      next => one%next
      done = .true.
      if (all) then
        call MPI_Wait(one%request, MPI_STATUS_IGNORE, error)
      else
        call MPI_Test(one%request, done, MPI_STATUS_IGNORE, error)
      end if
      if (done .and. error == MPI_SUCCESS) then
        deallocate (one)
      else
        one%next => kept
        kept => one
      end if
      one => next
    end do
    own%posts => kept
  end subroutine

  ! The status of a function that ended with this error. What MPI says of it is in the error of the call on all ranks.
  function failed(error) result(status)
    integer, intent(in) :: error
    integer(c_int) :: status, ignored
    character(len=MPI_MAX_ERROR_STRING) :: why
    integer :: length, unknown

    status = int(error, c_int)
    if (error == MPI_SUCCESS) return
    call MPI_Error_string(error, why, length, unknown)
    if (unknown == MPI_SUCCESS) ignored = surefoot_group_failed(why(1:length)//c_null_char)
  end function

  ! Sends without waiting for the rank that takes it.
  function post(context, to, data, bytes) bind(c, name='') result(status)
    type(c_ptr), value :: context, data
    integer(c_int32_t), value :: to
    integer(c_size_t), value :: bytes
    integer(c_int) :: status
    type(state), pointer :: own
    type(posted), pointer :: new
    integer(byte), pointer :: given(:)
    integer :: error

    call c_f_pointer(context, own)
    call forget_posts(own, .false.)
    if (bytes > piece_bytes .or. to < 0 .or. to >= size(own%sent)) then
      status = failed(MPI_ERR_ARG)
      return
    end if
    call c_f_pointer(data, given, [bytes])
    allocate (new)
    allocate (new%data(bytes))
    new%data = given
    call MPI_Isend(new%data, int(bytes), MPI_BYTE, int(to), tag, own%comm, new%request, error)
    status = failed(error)
    if (error /= MPI_SUCCESS) then
      deallocate (new)
      return
    end if
    own%sent(to + 1) = own%sent(to + 1) + 1
    new%next => own%posts
    own%posts => new
  end function

  function communicator(context) result(own)
    type(c_ptr), intent(in) :: context
    type(state), pointer :: of
    integer :: own

    call c_f_pointer(context, of)
    own = of%comm
  end function

  function piece(left) result(bytes)
    integer(c_size_t), intent(in) :: left
    integer :: bytes

    bytes = int(min(left, piece_bytes))
  end function

  function broadcast(context, data, bytes, root) bind(c, name='') result(status)
    type(c_ptr), value :: context, data
    integer(c_size_t), value :: bytes
    integer(c_int32_t), value :: root
    integer(c_int) :: status
    integer(byte), pointer :: all(:)
    integer(c_size_t) :: done
    integer :: error

    error = MPI_SUCCESS
    call c_f_pointer(data, all, [bytes])
    done = 0
    do while (done < bytes .and. error == MPI_SUCCESS)
      call MPI_Bcast(all(done + 1), piece(bytes - done), MPI_BYTE, int(root), communicator(context), error)
      done = done + piece(bytes - done)
    end do
    status = failed(error)
  end function

  function all_gather(context, own, all, bytes_each) bind(c, name='') result(status)
    type(c_ptr), value :: context, own, all
    integer(c_size_t), value :: bytes_each
    integer(c_int) :: status
    integer(byte), pointer :: mine(:), everybodys(:)
    integer(c_size_t) :: done
    integer :: error, ranks, part, place, count, ignored

    call MPI_Comm_size(communicator(context), ranks, error)
    if (error /= MPI_SUCCESS) ranks = 0
    call c_f_pointer(own, mine, [bytes_each])
    call c_f_pointer(all, everybodys, [bytes_each*ranks])
    done = 0
    do while (done < bytes_each .and. error == MPI_SUCCESS)
      count = piece(bytes_each - done)
      ! A piece of every rank's bytes, each in its place: places are bytes_each apart.
      call MPI_Type_contiguous(count, MPI_BYTE, part, error)
      if (error /= MPI_SUCCESS) exit
      call MPI_Type_create_resized(part, 0_MPI_ADDRESS_KIND, int(bytes_each, MPI_ADDRESS_KIND), place, error)
      if (error == MPI_SUCCESS) then
        call MPI_Type_commit(place, error)
        if (error == MPI_SUCCESS) call MPI_Allgather(mine(done + 1), count, MPI_BYTE, everybodys(done + 1), 1, place, &
                                                     communicator(context), error)
        call MPI_Type_free(place, ignored)
      end if
      call MPI_Type_free(part, ignored)
      done = done + count
    end do
    status = failed(error)
  end function

  ! The two directions may have different lengths; who has no more to send or to receive does not take part.
  function exchange(context, to, send, send_bytes, from, receive, receive_bytes) bind(c, name='') result(status)
    type(c_ptr), value :: context, send, receive
    integer(c_int32_t), value :: to, from
    integer(c_size_t), value :: send_bytes, receive_bytes
    integer(c_int) :: status
    integer(byte), pointer :: out(:), in(:)
    integer(byte), target :: nothing(1)
    integer(c_size_t) :: sent, received
    type(state), pointer :: own
    integer :: error, out_count, in_count, out_rank, in_rank, came, of_message(MPI_STATUS_SIZE)

    call c_f_pointer(context, own)
    sent = 0
    received = 0
    do
      out_count = piece(send_bytes - sent)
      in_count = piece(receive_bytes - received)
      out_rank = merge(int(to), MPI_PROC_NULL, out_count > 0)
      in_rank = merge(int(from), MPI_PROC_NULL, in_count > 0)
      out => nothing
      in => nothing
      if (out_count > 0) call c_f_pointer(send, out, [send_bytes])
      if (in_count > 0) call c_f_pointer(receive, in, [receive_bytes])
      call MPI_Sendrecv(out(merge(sent, 0_c_size_t, out_count > 0) + 1), out_count, MPI_BYTE, out_rank, tag, &
                        in(merge(received, 0_c_size_t, in_count > 0) + 1), in_count, MPI_BYTE, in_rank, tag, &
                        own%comm, of_message, error)
      ! What was cut has come, too.
      if (out_count > 0 .and. to < size(own%sent)) own%sent(to + 1) = own%sent(to + 1) + 1
      if (in_count > 0 .and. from < size(own%sent)) own%received(from + 1) = own%received(from + 1) + 1
      if (error == MPI_SUCCESS .and. in_count > 0) then
        call MPI_Get_count(of_message, MPI_BYTE, came, error)
        if (error == MPI_SUCCESS .and. came /= in_count) error = MPI_ERR_TRUNCATE
      end if
      sent = sent + out_count
      received = received + in_count
      if (error /= MPI_SUCCESS .or. (sent >= send_bytes .and. received >= receive_bytes)) exit
    end do
    status = failed(error)
  end function

end module
