mod build;
mod interface;
mod mpi;
mod plain;
mod run;
