import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { ModelCard, RuntimeConfig } from '../../../../shared/discovery/index.ts';
import { cardFilter, modelOpener } from '../../../../shared/frontends/process/open-model.ts';
import { captureLogger, MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { readModelInfo } from '../../../../shared/tokens/index.ts';
import { GENERAL_TOKENIZERS } from '../../../support/tokens/variants.ts';

const DEFAULTS = resolveConfig('frontend', [], {}).settings;

describe('opening a model', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-open-model-'));
    await cp(builtinModelPath(), folder, { recursive: true });
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function card(runtime_config: RuntimeConfig = {}): Promise<ModelCard> {
    const { files } = await readModelInfo(folder);
    return {
      display_name: 'm',
      slug: 'm',
      files,
      kv_cache_block_size: 16,
      model_type: ['Chat'],
      model_input: 'Tokens',
      worker_type: 'aggregated',
      needs: [],
      aliases: [],
      runtime_config,
    };
  }

  async function open(
    { tokenizer, fallback = true }: { readonly tokenizer: 'default' | 'fastokens'; readonly fallback?: boolean },
    runtime?: RuntimeConfig,
  ) {
    const { logger, lines } = captureLogger();
    const opener = modelOpener(
      { ...DEFAULTS, tokenizer, tokenizerFallback: fallback },
      SYSTEM,
      logger,
      new MetricRegistry(),
    );
    const loaded = await opener({ card: await card(runtime), workers: [] });
    return { ids: [...loaded.tokenizer.encode('Hello worlds!')], warnings: lines.map(({ message }) => message) };
  }

  it('takes the built-in encoder in the place of fastokens, and says so', async () => {
    const plain = await open({ tokenizer: 'default' });
    const fast = await open({ tokenizer: 'fastokens', fallback: false });
    expect(plain.warnings).toEqual([]);
    expect(fast.ids).toEqual(plain.ids);
    expect(fast.warnings).toEqual([expect.stringContaining('fastokens is not part of this product')]);
  });

  it("heeds the worker card's choice before its own", async () => {
    const chosen = await open({ tokenizer: 'default' }, { tokenizer_backend: 'fastokens' });
    expect(chosen.warnings).toHaveLength(1);
    const own = await open({ tokenizer: 'fastokens' }, { tokenizer_backend: 'default' });
    expect(own.warnings).toEqual([]);
  });

  it('falls back to the reference tokenizer where the chosen one fails, unless it may not', async () => {
    const uncovered = GENERAL_TOKENIZERS['BERT: WordPiece']!();
    await writeFile(join(folder, 'tokenizer.json'), JSON.stringify(uncovered));
    const fallen = await open({ tokenizer: 'fastokens' });
    expect(fallen.ids).toEqual([3, 4, 5, 9]);
    expect(fallen.warnings[1]).toContain('using the reference one');
    await expect(open({ tokenizer: 'fastokens', fallback: false })).rejects.toThrow(
      /tokenizer\.json: not covered by the fast encoder; allow the reference tokenizer/,
    );
    const chosen = await open({ tokenizer: 'default', fallback: false }); // the reference itself
    expect(chosen.ids).toEqual(fallen.ids);
  });
});

describe('the version of tool-call parsers', () => {
  it('leaves out models whose parser has no second generation, and says so once a name', () => {
    const { logger, lines } = captureLogger();
    const cardOf = (display_name: string, tool_call_parser?: string) =>
      ({ display_name, runtime_config: tool_call_parser === undefined ? {} : { tool_call_parser } }) as ModelCard;
    const serves = cardFilter('2', logger);
    expect(serves(cardOf('a', 'qwen3_coder'))).toBe(true);
    expect(serves(cardOf('b', 'kimi_k25'))).toBe(true);
    expect(serves(cardOf('c'))).toBe(true);
    expect([serves(cardOf('d', 'hermes')), serves(cardOf('d', 'hermes'))]).toEqual([false, false]);
    expect(serves(cardOf('e', 'minimax_m2'))).toBe(false);
    expect(lines.map(({ fields }) => fields)).toEqual([
      { model: 'd', parser: 'hermes', version: '2' },
      { model: 'e', parser: 'minimax_m2', version: '2' },
    ]);
    for (const version of ['auto', '1'] as const) expect(cardFilter(version, logger)(cardOf('d', 'hermes'))).toBe(true);
  });
});
