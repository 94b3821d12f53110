mod durable;
mod faulty;
mod image;
mod inspect;
mod session;
mod sidecar;
