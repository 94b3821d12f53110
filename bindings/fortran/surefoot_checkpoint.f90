! SPDX-License-Identifier: Apache-2.0 OR MIT
!
! The functions of bindings/c/surefoot_checkpoint.h, which says what each does, for Fortran 2003 and later.
!
!     module=$(pkg-config --variable=fortrandir surefoot)/surefoot_checkpoint.f90
!     gfortran -o checkpoint $module checkpoint.f90 $(pkg-config --libs surefoot)
!
! A module comes before the programs that use it.
!
! Texts end in a NUL: 'cells'//c_null_char. What is protected has the attribute target, and is passed by c_loc.
! A program of one rank passes c_null_ptr for its group; surefoot_checkpoint_mpi.f90 makes that of several MPI ranks.
module surefoot_checkpoint
  use, intrinsic :: iso_c_binding
  implicit none
  private :: c_strlen

  integer(c_int), parameter :: surefoot_status_ok = 0
  integer(c_int), parameter :: surefoot_status_nothing = 1
  integer(c_int), parameter :: surefoot_status_other_ranks = -11

  integer(c_int), parameter :: surefoot_place_skipped = 0
  integer(c_int), parameter :: surefoot_place_memory = 1
  integer(c_int), parameter :: surefoot_place_both = 2
  integer(c_int), parameter :: surefoot_place_durable = 3
  ! How ranks talk; surefoot_mpi_group_open fills it in.
  type, bind(c) :: surefoot_group
    type(c_ptr) :: context = c_null_ptr
    integer(c_int32_t) :: rank = 0
    integer(c_int32_t) :: size = 1
    type(c_funptr) :: broadcast = c_null_funptr
    type(c_funptr) :: all_gather = c_null_funptr
    type(c_funptr) :: exchange = c_null_funptr
    type(c_funptr) :: post = c_null_funptr
  end type

  type, bind(c) :: surefoot_saved
    integer(c_int64_t) :: generation
    integer(c_int64_t) :: payload_bytes
    real(c_double) :: visible_s
    integer(c_int) :: place
  end type

  type, bind(c) :: surefoot_restored
    integer(c_int64_t) :: generation
    integer(c_int64_t) :: taken_realtime_ns
  end type

  interface
    function surefoot_version() bind(c) result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function

    function surefoot_config_new(job) bind(c) result(config)
      import :: c_ptr, c_char
      character(kind=c_char), intent(in) :: job(*)
      type(c_ptr) :: config
    end function

    function surefoot_config_set(config, name, setting) bind(c) result(status)
      import :: c_ptr, c_char, c_int
      type(c_ptr), value :: config
      character(kind=c_char), intent(in) :: name(*), setting(*)
      integer(c_int) :: status
    end function

    function surefoot_config_text(config) bind(c) result(text)
      import :: c_ptr
      type(c_ptr), value :: config
      type(c_ptr) :: text
    end function

    function surefoot_config_free(config) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: config
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_open(config, group, job) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: config, group
      type(c_ptr), intent(out) :: job
      integer(c_int) :: status
    end function

    ! why: why this rank cannot open, for the others, which are in surefoot_checkpoint_open.
    function surefoot_checkpoint_decline(group, why) bind(c) result(status)
      import :: c_ptr, c_char, c_int
      type(c_ptr), value :: group
      character(kind=c_char), intent(in) :: why(*)
      integer(c_int) :: status
    end function

    ! Called by a function of a group before it returns anything but 0: why it fails.
    function surefoot_group_failed(why) bind(c) result(status)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: why(*)
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_protect(job, name, start, bytes) bind(c) result(status)
      import :: c_ptr, c_char, c_size_t, c_int
      type(c_ptr), value :: job, start
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: bytes
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_release(job, name) bind(c) result(status)
      import :: c_ptr, c_char, c_int
      type(c_ptr), value :: job
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: status
    end function

    ! The path, with its NUL, goes into buffer.
    function surefoot_checkpoint_route_file(job, name, buffer, buffer_bytes) bind(c) result(status)
      import :: c_ptr, c_char, c_size_t, c_int
      type(c_ptr), value :: job
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(out) :: buffer(*)
      integer(c_size_t), value :: buffer_bytes
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_need(job, is_needed) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: job
      integer(c_int), intent(out) :: is_needed
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_save(job, saved) bind(c) result(status)
      import :: c_ptr, c_int, surefoot_saved
      type(c_ptr), value :: job
      type(surefoot_saved), intent(out) :: saved
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_save_to(job, place, saved) bind(c) result(status)
      import :: c_ptr, c_int, surefoot_saved
      type(c_ptr), value :: job
      integer(c_int), value :: place
      type(surefoot_saved), intent(out) :: saved
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_told_to_end(job, is_told) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: job
      integer(c_int), intent(out) :: is_told
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_restart(job, restored) bind(c) result(status)
      import :: c_ptr, c_int, surefoot_restored
      type(c_ptr), value :: job
      type(surefoot_restored), intent(inout) :: restored
      integer(c_int) :: status
    end function

    ! left_out: c_null_ptr, or what names begin with that are left out where the numbers of ranks differ.
    function surefoot_checkpoint_restart_resized(job, left_out, restored) bind(c) result(status)
      import :: c_ptr, c_int, surefoot_restored
      type(c_ptr), value :: job, left_out
      type(surefoot_restored), intent(inout) :: restored
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_scrub(job) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: job
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_finish(job) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: job
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_complete(job) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: job
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_discard(job) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: job
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_close(job) bind(c) result(status)
      import :: c_ptr, c_int
      type(c_ptr), value :: job
      integer(c_int) :: status
    end function

    function surefoot_checkpoint_report(job) bind(c) result(text)
      import :: c_ptr
      type(c_ptr), value :: job
      type(c_ptr) :: text
    end function

    function surefoot_checkpoint_reasons(job) bind(c) result(text)
      import :: c_ptr
      type(c_ptr), value :: job
      type(c_ptr) :: text
    end function

    ! c_null_ptr when nothing more happened; surefoot_text makes an empty text of that.
    function surefoot_checkpoint_notice(job) bind(c) result(text)
      import :: c_ptr
      type(c_ptr), value :: job
      type(c_ptr) :: text
    end function

    function surefoot_error_text(job) bind(c) result(text)
      import :: c_ptr
      type(c_ptr), value :: job
      type(c_ptr) :: text
    end function

    function c_strlen(text) bind(c, name='strlen') result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  ! A text of the library as one of Fortran's.
  function surefoot_text(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(len=:), allocatable :: copy
    character(kind=c_char), pointer :: letters(:)
    integer :: i

    if (.not. c_associated(text)) then
      copy = ''
      return
    end if
    call c_f_pointer(text, letters, [c_strlen(text)])
    allocate (character(len=size(letters)) :: copy)
    do i = 1, size(letters)
      copy(i:i) = letters(i)
    end do
  end function

end module
