mod faulty;
mod image;
mod payload;
mod sidecar;
mod sidecar_kill;
mod traced;
