mod build;
mod fortran;
mod guide;
mod interface;
mod mpi;
mod plain;
mod python;
mod run;
