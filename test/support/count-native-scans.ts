type Method = (this: unknown, ...given: unknown[]) => unknown;

/**
 * Counts the characters that the engine's native searches scan while `run` runs: `indexOf` and its like, `trim`,
 * `split`, `replace`, regular expressions, `JSON.parse`. `countSteps` does not see them. A pattern that may match at
 * only one place and does not match counts nothing, because how far it looked is unknown.
 */
export function countNativeScans(run: () => void): number {
  let scanned = 0;
  const restore: (() => void)[] = [];
  const watch = (owner: object, name: string, cost: (self: unknown, given: unknown[], result: unknown) => number) => {
    const own = Reflect.get(owner, name) as Method;
    const watched: Method = function (this: unknown, ...given) {
      const result = own.apply(this, given);
      scanned += cost(this, given, result);
      return result;
    };
    Reflect.set(owner, name, watched);
    restore.push(() => Reflect.set(owner, name, own));
  };
  const text = String.prototype;
  for (const name of ['indexOf', 'includes']) {
    watch(text, name, (self, [sought, from], at) => {
      const start = Number(from ?? 0);
      const end = typeof at === 'number' && at >= 0 ? at + String(sought).length : String(self).length;
      return Math.max(0, end - start);
    });
  }
  watch(text, 'lastIndexOf', (self, _given, at) => String(self).length - Math.max(0, Number(at)));
  for (const name of ['trim', 'trimStart', 'trimEnd']) {
    watch(text, name, (self, _given, kept) => String(self).length - String(kept).length);
  }
  for (const name of ['split', 'replaceAll', 'toLowerCase', 'toUpperCase']) {
    watch(text, name, (self) => String(self).length);
  }
  watch(text, 'repeat', (_self, _given, made) => String(made).length);
  watch(Array.prototype, 'join', (_self, _given, made) => String(made).length);
  watch(JSON, 'parse', (_self, [json]) => String(json).length);
  watch(JSON, 'stringify', (_self, _given, json) => String(json).length);
  const exec = RegExp.prototype.exec;
  RegExp.prototype.exec = function (this: RegExp, given: string) {
    const from = this.global || this.sticky ? this.lastIndex : 0;
    const match = exec.call(this, given);
    if (match !== null) scanned += match.index + match[0].length - from;
    else if (!this.sticky && !this.source.startsWith('^')) scanned += given.length - from;
    return match;
  };
  restore.push(() => {
    RegExp.prototype.exec = exec;
  });
  try {
    run();
  } finally {
    for (const each of restore) each();
  }
  return scanned;
}
