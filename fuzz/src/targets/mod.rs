pub mod checkpoint;
pub mod http;
pub mod inloop;
pub mod names;
pub mod people;
pub mod recording;
pub mod settings;
