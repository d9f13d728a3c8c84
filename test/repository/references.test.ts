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

  it('names no source file in its map that is not there', () => {
    const map = ['docs/architecture.md', 'CONTRIBUTING.md'].map((path) => readFileSync(path, 'utf8')).join('\n');
    const named = [...map.matchAll(/`([\w./-]+\/[\w.-]+\.ts)`/g)].map(([, name]) => name as string);
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((name) => !existsSync(name) && !files.some((path) => path.endsWith(name)))).toEqual([]);
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
      /\brulings? \d|\((?:[^()]*, )?sections? \d/i.test(readFileSync(path, 'utf8')),
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
