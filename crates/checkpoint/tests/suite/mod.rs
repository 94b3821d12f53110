mod durable;
mod faulty;
mod image;
mod inspect;
mod poison;
mod seeded;
mod session;
mod sidecar;
