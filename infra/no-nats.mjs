// Stands in for the client of NATS in the bundle of a function: its settings refuse planes that go through NATS.
export function openNats() {
  throw new Error('a function has no client of NATS');
}
