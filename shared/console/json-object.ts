/** Elements of an array that are JSON text already. */
export class Raw {
  readonly elements: readonly string[];

  constructor(elements: readonly string[]) {
    this.elements = elements;
  }
}

/** Returns an object as JSON text. */
export function objectOf(members: Readonly<Record<string, unknown>>): string {
  const texts = Object.entries(members).map(
    ([name, value]) => `"${name}":${value instanceof Raw ? `[${value.elements.join(',')}]` : JSON.stringify(value)}`,
  );
  return `{${texts.join(',')}}`;
}
