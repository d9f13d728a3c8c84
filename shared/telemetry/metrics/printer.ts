/** Loaded by the first scrape. A module of its own, as a CommonJS package that is imported lazily loses its names in a bundle. */
export { Registry } from 'prom-client';
