import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import type { ModelCard, RuntimeConfig } from '../../../../shared/discovery/index.ts';
import { modelOpener } from '../../../../shared/frontends/process/open-model.ts';
import { withOwnFolder } from '../../../../shared/frontends/process/own-folder.ts';
import { MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
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
    const { open: opener } = modelOpener(
      { ...DEFAULTS, tokenizer, tokenizerFallback: fallback },
      SYSTEM,
      logger,
      new MetricRegistry(),
    );
    const loaded = await opener({ card: await card(runtime), workers: [] });
    return {
      ids: [...loaded.tokenizer.encode('Hello worlds!')],
      lines: lines.map(({ level, message }) => `${level} ${message}`),
    };
  }

  it('takes the built-in encoder for fastokens, without a warning, and says so to who looks', async () => {
    const plain = await open({ tokenizer: 'default' });
    const fast = await open({ tokenizer: 'fastokens', fallback: false });
    expect(plain.lines).toEqual([]);
    expect(fast.ids).toEqual(plain.ids);
    expect(fast.lines).toEqual(['debug fastokens: the built-in encoder is the fast one here']);
  });

  it('says at once which parsers of a model it does not have', async () => {
    const { lines } = await open(
      { tokenizer: 'default' },
      { tool_call_parser: 'unheard-of', reasoning_parser: 'unheard-of' },
    );
    expect(lines).toEqual([
      'error chats with tools are refused with 501 for this model',
      expect.stringMatching("^warn unknown reasoning parser 'unheard-of', using 'basic'"),
    ]);
    expect((await open({ tokenizer: 'default' }, { tool_call_parser: 'hermes' })).lines).toEqual([]);
  });

  it('says it once, however many models there are', async () => {
    const { logger, lines } = captureLogger();
    const { open: opener } = modelOpener({ ...DEFAULTS, tokenizer: 'fastokens' }, SYSTEM, logger, new MetricRegistry());
    for (const display_name of ['m', 'n']) await opener({ card: { ...(await card()), display_name }, workers: [] });
    expect(lines).toHaveLength(1);
  });

  it("heeds the worker card's choice before its own", async () => {
    const chosen = await open({ tokenizer: 'default' }, { tokenizer_backend: 'fastokens' });
    expect(chosen.lines).toHaveLength(1);
    const own = await open({ tokenizer: 'fastokens' }, { tokenizer_backend: 'default' });
    expect(own.lines).toEqual([]);
  });

  it('falls back to the reference tokenizer where the chosen one fails, unless it may not', async () => {
    const uncovered = GENERAL_TOKENIZERS['BERT: WordPiece']!();
    await writeFile(join(folder, 'tokenizer.json'), JSON.stringify(uncovered));
    const fallen = await open({ tokenizer: 'fastokens' });
    expect(fallen.ids).toEqual([3, 4, 5, 9]);
    expect(fallen.lines[1]).toMatch(/^warn .*using the reference one/);
    await expect(open({ tokenizer: 'fastokens', fallback: false })).rejects.toThrow(
      /tokenizer\.json: not covered by the fast encoder; allow the reference tokenizer/,
    );
    const chosen = await open({ tokenizer: 'default', fallback: false }); // the reference itself
    expect(chosen.ids).toEqual(fallen.ids);
  });
});

describe('a model whose worker’s files are not to be had', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'stator-own-folder-'));
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  /** What is opened, one after the other, with the operator's own folder. */
  async function openAll(names: readonly string[], modelPath: string | undefined) {
    const { logger, lines } = captureLogger();
    const { open: opener } = modelOpener({ ...DEFAULTS, modelPath }, SYSTEM, logger, new MetricRegistry());
    const outcomes: string[] = [];
    for (const display_name of names) {
      const card = { ...(await cardOf(display_name)) };
      const opened = opener({ card, workers: [] }).then(({ path }) => path);
      outcomes.push(await opened.catch((thrown: Error) => thrown.message));
    }
    return { outcomes, lines };
  }

  /** A card of a worker on another machine, whose files are others than those here. */
  async function cardOf(display_name: string): Promise<ModelCard> {
    const { files } = await readModelInfo(builtinModelPath());
    const theirs = Object.entries(files).map(([role, file]) => [
      role,
      { ...file, path: `/elsewhere/${role}`, checksum: `sha256:${'0'.repeat(64)}` },
    ]);
    const kinds = { model_type: ['Chat'], model_input: 'Tokens', worker_type: 'aggregated' } as const;
    const lists = { needs: [], aliases: [], runtime_config: {} };
    return { display_name, slug: 'm', files: Object.fromEntries(theirs), kv_cache_block_size: 16, ...kinds, ...lists };
  }

  it('has tokenizer and template of --model-path, and a warning says so', async () => {
    const { outcomes, lines } = await openAll(['m'], builtinModelPath());
    expect(outcomes).toEqual([builtinModelPath()]);
    expect(lines).toMatchObject([
      {
        level: 'warn',
        fields: { model: 'm', folder: builtinModelPath(), reason: expect.stringContaining('/elsewhere/') },
      },
    ]);
  });

  it('does not have the tokenizer of another model for it', async () => {
    const { outcomes } = await openAll(['m', 'n'], builtinModelPath());
    expect(outcomes).toEqual([builtinModelPath(), expect.stringMatching(/^model n: /)]);
  });

  it('cannot be opened without that, and the error names the status server that would give them', async () => {
    const { outcomes } = await openAll(['m'], undefined);
    expect(outcomes).toEqual([
      expect.stringMatching(
        /^model m: \/elsewhere\/.* absent; give a folder .* --model-path, or have them fetched: .*DYN_SYSTEM_PORT/,
      ),
    ]);
  });

  it('is not reached with a folder without a tokenizer, which ends the start by its name', async () => {
    await writeFile(join(root, 'config.json'), '{}');
    const context = { clock: SYSTEM.clock, logger: captureLogger().logger };
    const folderOf = async (modelPath: string) => (await withOwnFolder({ ...DEFAULTS, modelPath }, context)).modelPath;
    await expect(folderOf(root)).rejects.toThrow(`--model-path ${root}: the folder holds no tokenizer`);
    expect(await folderOf(builtinModelPath())).toBe(builtinModelPath());
  });
});
