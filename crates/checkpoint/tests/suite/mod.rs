mod durable;
mod faulty;
mod image;
mod session;
mod sidecar;
