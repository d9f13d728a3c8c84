import { isRecord } from '../../records/index.ts';
import type { CallWriter } from './call-writer.ts';
import { parseJson } from './json-scan.ts';
import { createEntityDecoder } from './parameter-values.ts';

/** Writes the arguments of one call member by member. The first member commits the call. */
export class ArgumentsWriter {
  readonly #calls: CallWriter;
  readonly #name: string;
  readonly #id: string | undefined;
  readonly #written = new Set<string>();
  /** Object in a single parameter that may turn out to be all of the arguments. */
  #wrapped: { readonly key: string; readonly json: string } | undefined;

  constructor(calls: CallWriter, name: string, id?: string) {
    this.#calls = calls;
    this.#name = name;
    this.#id = id;
  }

  has(key: string): boolean {
    return this.#written.has(key) || this.#wrapped?.key === key;
  }

  /** Writes a member that holds all arguments if it is an object and the only member. */
  wrapped(key: string, text: string): void {
    const isAll = this.#written.size === 0 && this.#wrapped === undefined && isRecord(parseJson(text));
    if (isAll) this.#wrapped = { key, json: text.trim() };
    else this.member(key, JSON.stringify(text));
  }

  /** Writes a member whose value is known as JSON. */
  member(key: string, json: string): void {
    this.begin(key);
    this.#calls.arguments(json);
  }

  /** Writes the key of a member; its value follows through `raw`. */
  begin(key: string): void {
    const wrapped = this.#wrapped;
    this.#wrapped = undefined;
    if (wrapped !== undefined) this.member(wrapped.key, wrapped.json);
    if (this.#written.size === 0) this.#calls.start(this.#name, this.#id);
    this.#calls.arguments(`${this.#written.size === 0 ? '{' : ','}${JSON.stringify(key)}:`);
    this.#written.add(key);
  }

  raw(json: string): void {
    this.#calls.arguments(json);
  }

  close(): void {
    if (this.#wrapped !== undefined) this.#calls.whole(this.#name, this.#wrapped.json, this.#id);
    else if (this.#written.size === 0) this.#calls.whole(this.#name, '{}', this.#id);
    else this.#calls.arguments('}');
  }
}

/** Characters that must be escaped in a JSON string. */
const ESCAPED = /[^ !#-[\]-\ud7ff\ue000-\uffff]/;

/** Rules by which a format turns the text of a string into its value. */
export interface StringRules {
  /** Whether a line end on each side belongs to the template and not to the value. */
  readonly framed?: boolean;
  readonly decodesEntities?: boolean;
  /** Whether the bare word `null`, in any case, is null instead of a string. */
  readonly knowsNull?: boolean;
}

/**
 * Writes one string value as it arrives. Holds back a line end that may be at its end, a beginning of `null`, a part of
 * an entity, or half a surrogate pair.
 */
export class StringMember {
  readonly #arguments: ArgumentsWriter;
  readonly #key: string;
  readonly #rules: StringRules;
  readonly #decode: (text: string, isLast: boolean) => string;
  #held = '';
  #isAtStart = true;
  /** Whether some of the value has gone to the decoder, which may hold back all of it. */
  #hasBegun = false;
  #isOpen = false;

  constructor(writer: ArgumentsWriter, key: string, rules: StringRules) {
    this.#arguments = writer;
    this.#key = key;
    this.#rules = rules;
    this.#decode = rules.decodesEntities ? createEntityDecoder() : (text) => text;
  }

  push(piece: string): void {
    let text = this.#held + piece;
    if (this.#isAtStart && this.#rules.framed) text = text.replace(/^\n/, '');
    this.#isAtStart = false;
    if (!this.#hasBegun && this.#rules.knowsNull && 'null'.startsWith(this.#withoutFrame(text).toLowerCase())) {
      this.#held = text;
      return;
    }
    let end = this.#withoutFrame(text).length;
    if (end > 0 && isHighSurrogate(text.charCodeAt(end - 1))) end--;
    this.#held = text.slice(end);
    if (end === 0) return;
    this.#hasBegun = true;
    this.#write(this.#decode(text.slice(0, end), false));
  }

  /** Ends the value. */
  end(): void {
    const text = this.#withoutFrame(this.#held);
    if (!this.#hasBegun && this.#rules.knowsNull && text.toLowerCase() === 'null') {
      this.#arguments.member(this.#key, 'null');
      return;
    }
    this.#write(this.#decode(text, true));
    this.#open();
    this.#arguments.raw('"');
  }

  #withoutFrame(text: string): string {
    return this.#rules.framed && text.endsWith('\n') ? text.slice(0, -1) : text;
  }

  #write(text: string): void {
    if (text === '') return;
    this.#open();
    this.#arguments.raw(ESCAPED.test(text) ? JSON.stringify(text).slice(1, -1) : text);
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#arguments.begin(this.#key);
    this.#arguments.raw('"');
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
