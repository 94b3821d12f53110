mod build;
mod guide;
mod interface;
mod mpi;
mod plain;
mod run;
