// Closures, iterator chains and generics: names and inlined frames as Rust has them.
use std::collections::BTreeMap;

trait Shape {
    fn area(&self) -> f64;
}
struct Square(f64);
struct Circle(f64);
impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
impl Shape for Circle {
    fn area(&self) -> f64 {
        3.14159 * self.0 * self.0
    }
}

#[inline(never)]
fn sum_areas(shapes: &[Box<dyn Shape>]) -> f64 {
    shapes.iter().map(|s| s.area()).filter(|a| *a > 2.0).sum()
}

#[inline(never)]
fn count_words(text: &str) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for word in text.split(' ') {
        *words.entry(word.to_string()).or_insert(0) += 1;
    }
    words
}

#[inline(never)]
pub fn work(n: usize) -> usize {
    let shapes: Vec<Box<dyn Shape>> = (0..n)
        .map(|i| -> Box<dyn Shape> {
            if i % 2 == 0 {
                Box::new(Square(i as f64))
            } else {
                Box::new(Circle(i as f64))
            }
        })
        .collect();
    let words = count_words("the quick brown fox jumps over the lazy dog and the cat");
    sum_areas(&shapes) as usize + words.values().sum::<usize>()
}

fn main() {
    println!("{}", work(20));
}
