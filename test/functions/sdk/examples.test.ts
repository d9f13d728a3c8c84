import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { afterAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
/** The doors of the package, by the name that importers use. */
const DOORS = { stator: 'functions/sdk/frontend.ts', 'stator/worker': 'functions/sdk/worker.ts' } as const;

const folder = mkdtempSync(join(tmpdir(), 'stator-examples-'));
afterAll(() => rmSync(folder, { recursive: true }));

function parse(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
}

/** Each name that a file exports from another file, with that file. */
function handedOn(file: ts.SourceFile): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const statement of file.statements) {
    if (!ts.isExportDeclaration(statement) || !statement.exportClause || !statement.moduleSpecifier) continue;
    if (!ts.isNamedExports(statement.exportClause) || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
    const from = resolve(dirname(file.fileName), statement.moduleSpecifier.text);
    for (const { name } of statement.exportClause.elements) names.set(name.text, from);
  }
  return names;
}

type Named = ts.Statement & { readonly name?: ts.Identifier };

/** The statements of a file that declare an export. */
function declared(file: ts.SourceFile): readonly Named[] {
  return file.statements.filter(
    (statement): statement is Named =>
      ts.canHaveModifiers(statement) &&
      (ts.getModifiers(statement) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword),
  );
}

/** The examples of an export, wherever it is declared. */
function examplesOf(path: string, name: string): readonly string[] {
  const file = parse(path);
  const elsewhere = handedOn(file).get(name);
  if (elsewhere !== undefined) return examplesOf(elsewhere, name);
  const statement = declared(file).find((each) => each.name?.text === name);
  if (statement === undefined) throw new Error(`${path} declares no ${name}`);
  const tags = ts.getJSDocTags(statement).filter(({ tagName }) => tagName.text === 'example');
  return tags.map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? '');
}

function exportsOf(door: string): readonly string[] {
  const file = parse(join(ROOT, door));
  return [...handedOn(file).keys(), ...declared(file).map(({ name }) => name?.text ?? '')].sort();
}

describe('the examples of what the package exports', () => {
  const all = Object.entries(DOORS).flatMap(([from, door]) => {
    const names = exportsOf(door);
    return names.map((name) => ({ from, name, names, examples: examplesOf(join(ROOT, door), name) }));
  });

  it.each(all)('are there for $name of $from', ({ name, examples }) => {
    expect(examples).toHaveLength(1);
    expect(examples[0]).toContain(name);
  });

  it('are accepted by the compiler', () => {
    const files = all.map(({ from, name, names, examples }) => {
      const used = names.filter((each) => new RegExp(`\\b${each}\\b`).test(examples.join('\n')));
      const file = `${from.replace('/', '-')}-${name}.mts`;
      writeFileSync(join(folder, file), `import { ${used.join(', ')} } from '${from}';\n\n${examples.join('\n')}\n`);
      return file;
    });
    const paths = Object.fromEntries(Object.entries(DOORS).map(([from, door]) => [from, [join(ROOT, door)]]));
    const compilerOptions = {
      paths,
      typeRoots: [join(ROOT, 'node_modules/@types')],
      noUnusedLocals: false,
      verbatimModuleSyntax: false,
      isolatedModules: false,
    };
    const tsconfig = { extends: join(ROOT, 'tsconfig.json'), compilerOptions, files, include: [], exclude: [] };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
    const compiler = join(ROOT, 'node_modules/typescript-native/bin/tsc');
    const { stdout } = spawnSync(process.execPath, [compiler, '--noEmit', '-p', folder], { encoding: 'utf8' });
    expect(stdout).toBe('');
  }, 120_000);
});
