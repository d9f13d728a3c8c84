/** The part of the library that this product uses, and nothing else of it. */
export { createBLAKE3 } from 'hash-wasm';
