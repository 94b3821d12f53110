! SPDX-License-Identifier: Apache-2.0 OR MIT
!
! What the functions of the Fortran group return where a call fails, on two ranks. Linked with group_failed.c in place of
! the library, which prints why. Rank 0 prints each status.
program mpi_group
  use, intrinsic :: iso_c_binding
  use mpi
  use surefoot_checkpoint
  use surefoot_checkpoint_mpi
  implicit none

  abstract interface
    function exchange_of(context, to, send, send_bytes, from, receive, receive_bytes) bind(c) result(status)
      import :: c_ptr, c_int32_t, c_size_t, c_int
      type(c_ptr), value :: context, send, receive
      integer(c_int32_t), value :: to, from
      integer(c_size_t), value :: send_bytes, receive_bytes
      integer(c_int) :: status
    end function
    function broadcast_of(context, data, bytes, root) bind(c) result(status)
      import :: c_ptr, c_int32_t, c_size_t, c_int
      type(c_ptr), value :: context, data
      integer(c_size_t), value :: bytes
      integer(c_int32_t), value :: root
      integer(c_int) :: status
    end function
    function post_of(context, to, data, bytes) bind(c) result(status)
      import :: c_ptr, c_int32_t, c_size_t, c_int
      type(c_ptr), value :: context, data
      integer(c_int32_t), value :: to
      integer(c_size_t), value :: bytes
      integer(c_int) :: status
    end function
  end interface

  type(surefoot_group), target :: group
  procedure(exchange_of), pointer :: exchange
  procedure(broadcast_of), pointer :: broadcast
  procedure(post_of), pointer :: post
  integer(c_int8_t), target :: own(64), other(64)
  integer(c_int32_t) :: peer
  integer :: error

  call MPI_Init(error)
  call surefoot_mpi_group_open(MPI_COMM_WORLD, group, error)
  call c_f_procpointer(group%exchange, exchange)
  call c_f_procpointer(group%broadcast, broadcast)
  call c_f_procpointer(group%post, post)
  own = 1
  peer = 1 - group%rank
  call say('equal', exchange(group%context, peer, c_loc(own), 16_c_size_t, peer, c_loc(other), 16_c_size_t))
  call say('shorter', exchange(group%context, peer, c_loc(own), 8_c_size_t, peer, c_loc(other), 16_c_size_t))
  call say('longer', exchange(group%context, peer, c_loc(own), 16_c_size_t, peer, c_loc(other), 8_c_size_t))
  call say('no rank', broadcast(group%context, c_loc(own), 8_c_size_t, 99_c_int32_t))
  call say('no rank', post(group%context, 99_c_int32_t, c_loc(own), 8_c_size_t))
  call surefoot_mpi_group_close(group, error)
  call MPI_Finalize(error)

contains

  subroutine say(what, status)
    character(len=*), intent(in) :: what
    integer(c_int), intent(in) :: status

    if (group%rank /= 0) return
    print '(a, a, a)', what, ': ', trim(merge('good  ', 'failed', status == 0))
    flush (6)
  end subroutine

end program
