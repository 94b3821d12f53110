mod durable;
mod faulty;
mod image;
mod inspect;
mod seeded;
mod session;
mod sidecar;
