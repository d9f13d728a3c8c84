import { Token } from 'aws-cdk-lib';

/** Place in the text of a manifest for a value that only a deployment knows. */
const PLACE = /<stator:([A-Za-z0-9_]+)>/g;

/**
 * Values of manifests that only CloudFormation knows, such as the name of a table. A manifest has a place for each:
 * `<stator:NAME>`.
 */
export class ManifestValues {
  readonly #values = new Map<string, string>();

  /** Returns a text for a manifest: the value itself if it is known, else a place of that name. */
  placeOf(name: string, value: string): string {
    if (!Token.isUnresolved(value)) return value;
    if ((this.#values.get(name) ?? value) !== value) throw new Error(`${name}: two values have this name`);
    this.#values.set(name, value);
    return `<stator:${name}>`;
  }

  /** Returns the places of a list, with their number in their names. */
  placesOf(name: string, values: readonly string[]): readonly string[] {
    return values.map((value, at) => this.placeOf(`${name}${at}`, value));
  }

  /** Values by the names of their places. */
  get known(): Readonly<Record<string, string>> {
    return Object.fromEntries(this.#values);
  }

  /** Returns a copy of an object of a manifest in which the values are in their places. */
  fill<T>(object: T): T {
    return this.#fill(object) as T;
  }

  #fill(part: unknown): unknown {
    if (typeof part === 'string')
      return part.replaceAll(PLACE, (place, name: string) => this.#values.get(name) ?? place);
    if (Array.isArray(part)) return part.map((each) => this.#fill(each));
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, this.#fill(value)]));
  }
}
