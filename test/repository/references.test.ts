import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';

const TEXT = /\.(?:ts|mjs|js|md|proto|py|go|json|svg)$/;
/** Recorded data keeps the words of its sources; CHANGELOG.md and lock files name what others have. */
const NOT_OURS = /^test\/fixtures\/|^package-lock\.json$|^test\/repository\//;

const files = execFileSync('git', ['ls-files'], { encoding: 'utf8' })
  .split('\n')
  .filter((path) => TEXT.test(path) && !NOT_OURS.test(path) && existsSync(path));

describe('the repository', () => {
  it('names no document that is not in it', () => {
    const missing = files.flatMap((path) =>
      [...readFileSync(path, 'utf8').matchAll(/[\w./-]*[\w-]\.md\b/g)]
        .filter(([name]) => ![dirname(path), '.', 'docs'].some((folder) => existsSync(join(folder, name))))
        .map(([name]) => `${path}: ${name}`),
    );
    expect(missing).toEqual([]);
  });

  it('names no source file and no folder in its map that is not there', () => {
    const missing: string[] = [];
    let named = 0;
    for (const page of ['docs/architecture.md', 'CONTRIBUTING.md']) {
      for (const line of readFileSync(page, 'utf8').split('\n')) {
        const room = /^\| `([\w-]+\/)` \|/.exec(line)?.[1]; // a row of the table of rooms names what lies in its room
        for (const [, name = ''] of line.matchAll(/`([\w.-]+(?:\/[\w.-]+)*(?:\/|\.ts))`/g)) {
          named++;
          const isInRoom = (path: string) => path.startsWith(`shared/${room}`) && path.includes(`/${name}`);
          const isNamed = name.includes('/') ? existsSync(name) : files.some((path) => path.endsWith(`/${name}`));
          const isThere = room === undefined ? isNamed : files.some(isInRoom) || (name.includes('/') && isNamed);
          if (!isThere) missing.push(`${page}: ${name}`);
        }
      }
    }
    expect(missing).toEqual([]);
    expect(named).toBeGreaterThan(150);
  });

  it('makes no deadline that may be collected before it has come', () => {
    // Node 20 forgets a signal of AbortSignal.any whose sources nobody else holds: withDeadline does not.
    const sources = files.filter((path) => /^(?:shared|functions|infra)\/.*\.ts$/.test(path));
    const both = sources.filter((path) => {
      const text = readFileSync(path, 'utf8');
      return text.includes('AbortSignal.any(') && text.includes('AbortSignal.timeout(');
    });
    expect(sources.length).toBeGreaterThan(500);
    expect(both).toEqual([]);
  });

  it('cites no number of a document that a reader does not have', () => {
    const citing = files.filter((path) =>
      /\b(?:rulings?|rules?) \d|\((?:[^()]*, )?sections? \d/i.test(readFileSync(path, 'utf8')),
    );
    expect(citing).toEqual([]);
  });

  it('takes time and chance from the machine in entry points alone', () => {
    const ambient =
      /\bsystem(?:Clock|Random)\b|\bSYSTEM\b|\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bperformance\.now\b/g;
    const aside = [
      /^import [^;]*;/gm,
      /\/\*[\s\S]*?\*\/|\/\/.*/g,
      /.*\.mtimeMs\b.*/g, // files have the machine's time, whatever the process is told
      /(?:\?\?|[^=!<>]=) system(?:Clock|Random)\b/g, // the default of an option
    ];
    const taking = files
      .filter((path) => /^shared\/(?!clock\/).*\.ts$/.test(path))
      .flatMap((path) => {
        const code = aside.reduce((text, pattern) => text.replaceAll(pattern, ''), readFileSync(path, 'utf8'));
        return [...code.matchAll(ambient)].map(([what]) => `${path}: ${what}`);
      });
    expect(taking).toEqual([]);
  });
});
