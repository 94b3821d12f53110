mod faulty;
mod image;
