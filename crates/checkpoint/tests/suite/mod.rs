mod durable;
mod faulty;
mod image;
