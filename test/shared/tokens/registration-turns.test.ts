import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { loadTokenizerTables } from '../../../shared/tokens/loader.ts';
import { readSpecialTokens } from '../../../shared/tokens/model-info.ts';
import { compileChatTemplate, compileChatTemplateInTurns } from '../../../shared/tokens/template/chat-template.ts';
import { parseTemplate, TemplateSyntaxError } from '../../../shared/tokens/template/syntax.ts';
import { stepGrowth, takeSteps } from '../../support/count-steps.ts';

const BUILTIN = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));
const FOLDER = mkdtempSync(join(tmpdir(), 'stator-registration-turns-'));
const SHOW = '{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}';
const loops = (body: string): string =>
  `{% for a in range(400) %}{% for b in range(400) %}${body}{% endfor %}{% endfor %}`;
/** All of a conversation's room, and none of it twice. */
const near = (times: number): string => `{% for a in range(${times}) %}{% if a == 1 %}{% endif %}{% endfor %}`;

/** Steps of each turn in which a template was compiled, and what became of it. */
async function turnsOf(source: string): Promise<{ readonly turns: readonly number[]; readonly refusal?: string }> {
  const turns: number[] = [];
  const endTurn = async (): Promise<void> => void turns.push(await takeSteps());
  await takeSteps();
  const compiling = compileChatTemplateInTurns(source, readSpecialTokens({}), {
    parse: async (text) => parseTemplate(text),
    pause: endTurn,
    onHopeless: () => undefined,
  });
  const refusal = await compiling.then(
    () => undefined,
    (error: Error) => error.message,
  );
  await endTurn();
  return { turns, ...(refusal !== undefined && { refusal }) };
}

afterAll(() => rmSync(FOLDER, { recursive: true }));

describe('the event loop while a model registers', () => {
  it.each([
    ['loops without end', loops('{{ a }}'), 'too many steps'],
    [
      'macros',
      '{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(100) }}',
      'too many',
    ],
    ['a costly conversation, again and again', `${near(2000)}${SHOW}`, undefined],
    ['a long template', `{{ '' }}`.repeat(2000) + SHOW, undefined],
  ])('is given back before a template has taken much of it: %s', async (_, source, refusal) => {
    const found = await turnsOf(source);
    if (refusal === undefined) expect(found.refusal).toBeUndefined();
    else expect(found.refusal).toContain(refusal);
    // A block of the product's code takes some 20 ns, so these are some 4 ms.
    expect(Math.max(...found.turns)).toBeLessThan(200_000);
    if (refusal === undefined) expect(found.turns.length).toBeGreaterThan(6);
  });

  it('learns of a template what it learns at once', async () => {
    const source = `{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('first') }}{% endif %}{{ m.content }}{% endfor %}`;
    const input = { messages: ['user', 'system'].map((role) => ({ role, content: role })), nowMs: 0 };
    const options = { parse: async (text: string) => parseTemplate(text), pause: async () => undefined };
    const apart = await compileChatTemplateInTurns(
      { default: source, toolUse: `tools ${source}` },
      readSpecialTokens({}),
      { ...options, onHopeless: () => undefined },
    );
    expect(apart.render(input)).toBe(compileChatTemplate(source).render(input));
    const tools = [{ type: 'function', function: { name: 'f' } }];
    expect(apart.render({ ...input, tools })).toMatch(/^tools /);
  });

  it('finds the ends of tests within tests once for all', async () => {
    const growth = await stepGrowth((times) => {
      const depth = 20 * times;
      parseTemplate(`{{ ${'x is eq('.repeat(depth)}x${')'.repeat(depth)} }}`);
    });
    expect(growth[3]).toBeLessThan(12);
  });

  it.each([
    ['x is a('.repeat(9000), 'tokens'],
    ['x is a('.repeat(4000), 'unbalanced brackets'],
    ['1,'.repeat(30_000), 'tokens'],
  ])('refuses a template that is parsed for long: %#', (inside, words) => {
    expect(() => parseTemplate(`{{ [${inside}] }}`)).toThrow(TemplateSyntaxError);
    expect(() => parseTemplate(`{{ [${inside}] }}`)).toThrow(words);
  });

  it('is handed 32,768 added tokens without an object for each', async () => {
    const file = JSON.parse(readFileSync(join(BUILTIN, 'tokenizer.json'), 'utf8')) as Record<string, unknown>;
    const added = Array.from({ length: 32_768 }, (_, at) => ({ id: 2000 + at, content: `<x${at}>`, special: true }));
    const path = join(FOLDER, 'tokenizer.json');
    writeFileSync(path, JSON.stringify({ ...file, added_tokens: added }));
    const { tables, ...handed } = await loadTokenizerTables(path);
    expect(tables?.flags.length).toBeGreaterThan(32_768);
    expect(JSON.stringify(handed)).toContain('<x32767>');
    expect(objectsIn(handed)).toBeLessThan(100);
  });
});

function objectsIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, member) => sum + objectsIn(member), 1);
}
