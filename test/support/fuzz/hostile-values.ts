import type { Random } from '../../../shared/clock/index.ts';

const PIECES = [
  ...['', 'a', ' ', '\0', '\n', '\r\n', '"', '\\', '\u2028', '\ufeff', '\ud800', '\udc00', '😀', 'é', '\u202e', '%00'],
  ...[
    '<think>',
    '</think>',
    '<tool_call>',
    '</tool_call>',
    '[f(',
    '{"name":"f","arguments":{',
    '<|channel|>',
    '<|im_start|>',
  ],
  ...[
    '__proto__',
    'constructor',
    '../..',
    'data:image/png;base64,',
    'http://127.0.0.1:1/',
    'file:///dev/zero',
    '{{',
    '{%',
  ],
  ...[
    '<｜tool▁calls▁begin｜>',
    '<function=f>',
    '<parameter=a>',
    ']<]minimax[>[',
    '<arg_key>',
    '&amp;',
    "'''",
    '[/TOOL_CALLS]',
  ],
];
const NUMBERS = [0, -0, 1, -1, 0.5, 2 ** 31, 2 ** 32, 2 ** 53, -(2 ** 53), 1e308, 5e-324, 1e21];
const KEYS = ['a', '', '__proto__', 'constructor', 'type', 'role', 'content', 'toString', 'length', '\0', '\ud800'];
const DEPTH_MAX = 4;

/** Values that no reader expects. The same seed gives the same values. */
export class HostileValues {
  readonly random: Random;

  constructor(random: Random) {
    this.random = random;
  }

  chance(share: number): boolean {
    return this.random.next() < share;
  }

  one<T>(choices: readonly T[]): T {
    return choices[this.random.below(choices.length)] as T; // callers pass no empty list
  }

  /** Returns a mostly short text; now and then one piece many thousand times. */
  text(): string {
    if (this.chance(0.05)) return this.one(PIECES).repeat(this.random.below(20_000));
    return Array.from({ length: this.random.below(8) }, () => this.one(PIECES)).join('');
  }

  bytes(lengthMax: number): Buffer {
    return Buffer.from(Array.from({ length: this.random.below(lengthMax) }, () => this.random.below(256)));
  }

  json(depth = 0): unknown {
    const kind = this.random.below(depth < DEPTH_MAX ? 8 : 5);
    if (kind === 0) return this.one([null, true, false]);
    if (kind <= 2) return this.text();
    if (kind === 3) return this.one(NUMBERS);
    if (kind === 4) return this.random.below(100) - 50;
    if (kind === 5) return this.deep();
    const length = this.chance(0.03) ? 5000 : this.random.below(5);
    if (kind === 6) {
      return Array.from({ length }, (_, at) => (at < 5 ? this.json(depth + 1) : at));
    }
    return Object.fromEntries(
      Array.from({ length: Math.min(length, 50) }, () => [this.one(KEYS), this.json(depth + 1)] as const),
    );
  }

  /** Returns the JSON text of `value` with a fault in it. */
  brokenText(value: unknown): string {
    const text = JSON.stringify(value) ?? 'null';
    const at = this.random.below(text.length + 1);
    const inserted = this.one([
      '\0',
      ',',
      '"',
      '}',
      ']',
      '{"a":',
      '1e999999',
      '9'.repeat(400),
      '\\ud800',
      '\t',
      '/**/',
      'NaN',
    ]);
    switch (this.random.below(4)) {
      case 0:
        return text.slice(0, at);
      case 1:
        return text.slice(0, at) + inserted + text.slice(at);
      case 2:
        return text.startsWith('{"') ? `{"model":"x",${text.slice(1)}` : text + text;
      default:
        return '[{"a":'.repeat(1 + this.random.below(3000)) + text;
    }
  }

  private deep(): unknown {
    let value: unknown = 1;
    for (let depth = this.random.below(this.chance(0.1) ? 500 : 6); depth > 0; depth--) {
      value = this.chance(0.5) ? [value] : { a: value };
    }
    return value;
  }
}
