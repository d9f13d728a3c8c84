import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../shared/artifacts/index.ts';
import { loadFolderTokenizer, loadModelFolder, ModelFolderError, readModelInfo } from '../../../shared/tokens/index.ts';
import { GENERAL_TOKENIZERS } from '../../support/tokens/variants.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'stator-model-'));
  await cp(builtinModelPath(), folder, { recursive: true });
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const write = (name: string, content: unknown): Promise<void> =>
  writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
const remove = (name: string): Promise<void> => rm(join(folder, name));
const user = [{ role: 'user', content: 'Hi' }];

async function failure(path = folder): Promise<string> {
  const error = await loadModelFolder(path, { modelName: 'm' }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ModelFolderError);
  const { message } = error as Error;
  expect(message).not.toContain('\n');
  return message;
}

describe('loadModelFolder', () => {
  it('loads the built-in model: tokenizer, template and info', async () => {
    const model = await loadModelFolder(folder);
    const prompt = model.chatTemplate!.render({ messages: user, nowMs: 0 });
    expect(prompt).toBe('<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n');
    const ids = model.tokenizer.encode(prompt);
    expect(model.tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(prompt);
    expect(model.info).toMatchObject({
      contextLength: 131_072,
      modelType: 'llama',
      eosTokenIds: [1787, 1785],
      files: {},
    });
  });

  it('loads only the tokenizer, with the same errors, for any chat template', async () => {
    await write('chat_template.jinja', '{% no such thing %}');
    const tokenizer = await loadFolderTokenizer(folder);
    expect(tokenizer.encode('Hi').length).toBeGreaterThan(0);
    await write('config.json', '{');
    await expect(loadFolderTokenizer(folder)).rejects.toThrow(/config\.json: broken JSON/);
    await expect(loadFolderTokenizer(join(folder, 'none'))).rejects.toThrow(ModelFolderError);
  });

  it('serves completions without a chat template', async () => {
    await write('tokenizer_config.json', { eos_token: '<|im_end|>' });
    expect((await loadModelFolder(folder)).chatTemplate).toBeUndefined();
  });

  it('loads tokenizers of other kinds through the general library', async () => {
    await write('tokenizer.json', GENERAL_TOKENIZERS['BERT: WordPiece']!());
    const { tokenizer } = await loadModelFolder(folder);
    expect([...tokenizer.encode('Hello worlds!')]).toEqual([3, 4, 5, 9]);
  });

  it.each(['BERT: WordPiece', 'T5: Unigram with metaspace'])('tells from its vocabulary what %s is', async (name) => {
    const file = GENERAL_TOKENIZERS[name]!();
    await write('tokenizer.json', file);
    const { tokenizer: named } = await loadModelFolder(folder);
    await write('tokenizer.json', { ...file, model: { ...(file.model as object), type: undefined } });
    const { tokenizer } = await loadModelFolder(folder);
    const ids = [...tokenizer.encode('hello world')];
    expect(ids).toEqual([...named.encode('hello world')]);
    expect(tokenizer.decode(ids)).toBe('hello world');
  });

  it.each(['tiktoken.model', 'kimi.tiktoken'])('loads %s if there is no tokenizer.json', async (name) => {
    await remove('tokenizer.json');
    const lines = Array.from({ length: 256 }, (_, byte) => `${Buffer.of(byte).toString('base64')} ${byte}`);
    await write(name, [...lines, `${Buffer.from('hi').toString('base64')} 256`].join('\n'));
    await write('config.json', { model_type: 'kimi_k2' });
    await write('tokenizer_config.json', { added_tokens_decoder: { 257: { content: '[EOS]', special: true } } });
    const { tokenizer, info } = await loadModelFolder(folder, { checksums: true });
    expect([...tokenizer.encode('hi!')]).toEqual([256, 33]);
    expect(tokenizer.tokenToId('[EOS]')).toBe(257);
    expect(Object.keys(info.files)).toContain(name);
  });

  it('prefers a given template, then chat_template.jinja, then chat_template.json, then the config', async () => {
    const rendered = async (chatTemplate?: string): Promise<string> =>
      (await loadModelFolder(folder, { chatTemplate })).chatTemplate!.render({ messages: user, nowMs: 0 });
    await write('tokenizer_config.json', { chat_template: 'config' });
    expect(await rendered()).toBe('config');
    await write('chat_template.json', { chat_template: 'json' });
    expect(await rendered()).toBe('json');
    await write('chat_template.jinja', 'jinja');
    expect(await rendered()).toBe('jinja');
    expect(await rendered('given')).toBe('given');
  });

  it.each([
    [
      'named entries',
      [
        { name: 'default', template: 'plain' },
        { name: 'tool_use', template: 'tools' },
      ],
      'tools',
    ],
    ['maps', [{ default: 'plain' }, { tool_use: 'tools' }], 'tools'],
    ['a default alone', [{ name: 'default', template: 'plain' }], 'plain'],
  ])('chooses from a list of templates by whether there are tools: %s', async (_, list, withTools) => {
    await write('tokenizer_config.json', { chat_template: list });
    const { chatTemplate } = await loadModelFolder(folder);
    const tools = [{ type: 'function', function: { name: 'f' } }];
    expect(chatTemplate!.render({ messages: user, nowMs: 0 })).toBe('plain');
    expect(chatTemplate!.render({ messages: user, tools: [], nowMs: 0 })).toBe('plain');
    expect(chatTemplate!.render({ messages: user, tools, nowMs: 0 })).toBe(withTools);
  });

  it('gives templates the special tokens in either form', async () => {
    await write('tokenizer_config.json', {
      bos_token: { content: '<b>' },
      eos_token: '<e>',
      unk_token: null,
      chat_template: '{{ bos_token }}|{{ eos_token }}|{{ unk_token }}',
    });
    expect((await loadModelFolder(folder)).chatTemplate!.render({ messages: user, nowMs: 0 })).toBe('<b>|<e>|');
  });
});

describe('loadModelFolder says in one line what is wrong and what to do', () => {
  it('with a folder that is missing', async () => {
    expect(await failure(join(folder, 'nowhere'))).toMatch(/nowhere: no such folder; give the path/);
  });

  it('with a file in place of the folder', async () => {
    expect(await failure(join(folder, 'config.json'))).toMatch(/config\.json: not a folder; give the folder/);
  });

  it('with a missing tokenizer.json', async () => {
    await remove('tokenizer.json');
    expect(await failure()).toMatch(/tokenizer\.json: no such file; give a Hugging Face model folder/);
  });

  it('with a tokenizer of a kind that is not read', async () => {
    await remove('tokenizer.json');
    await write('tokenizer.gguf', 'x');
    expect(await failure()).toMatch(/tokenizer\.gguf: Unsupported tokenizer file type: \.gguf; convert it/);
  });

  it('with a tiktoken file whose words are not known', async () => {
    await remove('tokenizer.json');
    await write('tiktoken.model', 'AA== 0');
    expect(await failure()).toMatch(/tiktoken\.model: unsupported tokenizer: .*"llama".*kimi_k2.*convert it/);
  });

  it('with a broken tiktoken file', async () => {
    await remove('tokenizer.json');
    await write('config.json', { model_type: 'kimi_k2' });
    await write('own.tiktoken', 'AA== zero');
    expect(await failure()).toMatch(
      /own\.tiktoken: broken tiktoken file \(line 1: not a token in base64, a space and a rank\); download it again/,
    );
  });

  it.each([
    ['cut off', '{"model": {"vocab": {"a'],
    ['empty', ''],
    ['not an object', '[]'],
    ['followed by rubbish', '{"model": null} x'],
    ['with a merge of unknown tokens', '{"model": {"type": "BPE", "vocab": VOCAB, "merges": ["nothing known"]}}'],
    ['with an added token without an id', '{"added_tokens": [{"content": "x"}], "model": MODEL}'],
  ])('with a tokenizer.json that is %s', async (_, text) => {
    const { model, ...rest } = JSON.parse(
      (await import('node:fs')).readFileSync(join(folder, 'tokenizer.json'), 'utf8'),
    ) as Record<string, Record<string, unknown>>;
    const full = JSON.stringify(model);
    const others = JSON.stringify({ ...rest, added_tokens: undefined }).slice(1, -1);
    const filled = text.replace('VOCAB', JSON.stringify(model!.vocab)).replace('MODEL', `${full}, ${others}`);
    await write('tokenizer.json', filled);
    expect(await failure()).toMatch(/tokenizer\.json: (broken JSON|unsupported tokenizer)/);
  });

  it('with an unknown tokenizer type', async () => {
    await write('tokenizer.json', { model: { type: 'Magic', vocab: [] } });
    expect(await failure()).toMatch(/unsupported tokenizer: model type "Magic"; use a model with/);
  });

  it.each(['config.json', 'tokenizer_config.json', 'generation_config.json'])('with a broken %s', async (name) => {
    await write(name, '{"half": ');
    expect(await failure()).toMatch(new RegExp(`${name}: broken JSON .*; download the file again`));
    await write(name, '7');
    expect(await failure()).toMatch(new RegExp(`${name}: not a JSON object`));
  });

  it('with a template that uses what is not supported', async () => {
    await write('chat_template.jinja', "{% include 'other' %}");
    expect(await failure()).toMatch(
      /chat template of model m \(.*chat_template.jinja\): not supported: .*include.*; give another one/,
    );
  });

  it('with a chat_template of a wrong type', async () => {
    await write('tokenizer_config.json', { chat_template: 7 });
    expect(await failure()).toMatch(/tokenizer_config\.json: chat_template is neither/);
  });
});

describe('readModelInfo', () => {
  it('lists every file with checksum and size, without reading the tokenizer', async () => {
    await write('tokenizer.json', 'not even JSON');
    const { files } = await readModelInfo(folder);
    expect(Object.keys(files)).toEqual([
      'config.json',
      'tokenizer.json',
      'tokenizer_config.json',
      'generation_config.json',
    ]);
    expect(files['tokenizer.json']).toEqual({
      path: join(folder, 'tokenizer.json'),
      checksum: 'sha256:5f6b918a346f51962698b5a0774bb17d0171dd4fa0bbbc35cab7a7eebcb5aa16',
      size: 13,
    });
    expect((await readModelInfo(folder, { checksums: false })).files).toEqual({});
  });

  it.each([
    ['config.json', { max_position_embeddings: 4096, text_config: { max_position_embeddings: 1 } }, 10, 4096],
    ['its text part', { text_config: { max_position_embeddings: 2048 } }, 10, 2048],
    ['the tokenizer', {}, 1024, 1024],
    ['the next place after a 0', { max_position_embeddings: 0 }, 512, 512],
    ['nowhere', {}, 1e30, undefined],
    ['nowhere, nothing being stated', {}, undefined, undefined],
  ])('takes the context length from %s', async (_, config, modelMaxLength, expected) => {
    await write('config.json', config);
    await write('tokenizer_config.json', { model_max_length: modelMaxLength });
    expect((await readModelInfo(folder)).contextLength).toBe(expected);
  });

  it.each(['"8k"', '-1', '1.5', '[]'])('refuses a malformed context length %s', async (value) => {
    await write('config.json', `{"max_position_embeddings": ${value}}`);
    await expect(readModelInfo(folder)).rejects.toThrow(
      /config\.json: max_position_embeddings is .*; write a positive integer/,
    );
  });

  it.each([
    ['a list in generation_config.json', { eos_token_id: [7, 8, 7] }, { eos_token_id: 9 }, [7, 8]],
    ['a single id in generation_config.json', { eos_token_id: 7 }, { eos_token_id: 9 }, [7]],
    ['config.json', {}, { eos_token_id: 9 }, [9]],
    ['the text part of config.json', {}, { text_config: { eos_token_id: 5 } }, [5]],
    ["the tokenizer's eos_token", {}, {}, [1787]],
  ])('takes the end tokens from %s', async (_, generation, config, expected) => {
    await write('generation_config.json', generation);
    await write('config.json', config);
    expect((await readModelInfo(folder)).eosTokenIds).toEqual(expected);
  });

  it('takes default sampling from generation_config.json, in the names of requests', async () => {
    const said = { temperature: 0.5, top_k: 0, top_p: 1, min_p: null, max_new_tokens: 64, bos_token_id: 3 };
    await write('generation_config.json', { ...said, do_sample: false, max_length: 'x' });
    const info = await readModelInfo(folder);
    expect(info.defaultSampling).toEqual({ temperature: 0.5, top_k: -1, top_p: 1, max_tokens: 64 });
    expect(info.bosTokenId).toBe(3);
  });

  it.each([
    ['temperature', '"hot"', 'a number from 0 on'],
    ['temperature', '-1', 'a number from 0 on'],
    ['temperature', '1e999', 'a number from 0 on'],
    ['temperature', 'true', 'a number from 0 on'],
    ['top_p', '0', 'a number above 0, up to 1'],
    ['top_p', '[0.9]', 'a number above 0, up to 1'],
    ['top_k', '1.5', 'a whole number, 0 or -1 for all tokens'],
    ['top_k', '1e300', 'a whole number, 0 or -1 for all tokens'],
    ['min_p', '1.1', 'a number from 0 to 1'],
    ['repetition_penalty', '0', 'a number above 0'],
    ['presence_penalty', '3', 'a number from -2 to 2'],
    ['frequency_penalty', '{}', 'a number from -2 to 2'],
    ['max_new_tokens', '0', 'a whole number from 1 on'],
    ['max_new_tokens', '"64"', 'a whole number from 1 on'],
  ])('refuses %s of %s there by name', async (name, value, allowed) => {
    await write('generation_config.json', `{"${name}": ${value}}`);
    const message = new RegExp(`generation_config\\.json: ${name} is .*; write ${allowed}$`);
    await expect(readModelInfo(folder)).rejects.toThrow(message);
    await expect(loadModelFolder(folder)).rejects.toThrow(message);
  });
});

describe('the loader thread', () => {
  it('gives a bundled process the same model for large files, and the same errors for broken ones; a small one needs none', async () => {
    const root = fileURLToPath(new URL('../../../', import.meta.url));
    const dist = join(folder, 'dist');
    const main = `
      import { loadModelFolder } from '${root}shared/tokens/index.ts';
      let threads = 0;
      process.on('worker', () => threads++);
      async function answer(folder) {
        const before = threads;
        const said = await loadModelFolder(folder).then(
          ({ tokenizer, chatTemplate }) => [
            ...tokenizer.encode('Hello there, <|im_end|> caf\u00e9'),
            chatTemplate.render({ messages: [{ role: 'user', content: 'hi' }], nowMs: 0 }),
          ],
          (error) => error.message,
        );
        return { said, threads: threads - before };
      }
      const answers = [];
      for (const folder of process.argv.slice(2)) answers.push(await answer(folder));
      console.log(JSON.stringify(answers));
    `;
    await writeFile(join(folder, 'main.ts'), main);
    await build({
      ...{
        bundle: true,
        platform: 'node',
        format: 'esm',
        outdir: dist,
        logLevel: 'error',
        nodePaths: [join(root, 'node_modules')],
      },
      entryPoints: { main: join(folder, 'main.ts'), 'tokenizer-loader': join(root, 'shared/tokens/loader-thread.ts') },
      outExtension: { '.js': '.js' },
    });
    await writeFile(join(dist, 'package.json'), '{"type":"module"}');
    const variant = async (name: string, tokenizerJson: string): Promise<string> => {
      const path = join(folder, name);
      await cp(builtinModelPath(), path, { recursive: true });
      await writeFile(join(path, 'tokenizer.json'), tokenizerJson);
      return path;
    };
    const whole = await readFile(join(builtinModelPath(), 'tokenizer.json'), 'utf8');
    const room = ' '.repeat(600 * 1024);
    const large = await variant('large', `${room}${whole}`);
    const broken = await variant('broken', `${room}{"model": `);
    const template = async (name: string, source: string): Promise<string> => {
      const path = await variant(name, whole);
      await writeFile(join(path, 'chat_template.jinja'), source);
      return path;
    };
    const long = `{# ${'x'.repeat(17_000)} #}`;
    const show = "{% for m in messages if m is not eq({'a': 1}) %}{{ {'b': m.content}['b'] }}{% endfor %}";
    const longTemplate = await template('long', long + show);
    const brokenTemplate = await template('broken-template', `${long}{% if %}`);
    const config = async (name: string, change: object): Promise<string> => {
      const path = await variant(name, whole);
      const before = JSON.parse(await readFile(join(path, 'tokenizer_config.json'), 'utf8')) as object;
      await writeFile(join(path, 'tokenizer_config.json'), JSON.stringify({ ...before, ...change }));
      return path;
    };
    const manyTokens = Object.fromEntries(Array.from({ length: 9000 }, (_, at) => [at, { content: `<added ${at}>` }]));
    const largeConfig = await config('config', { added_tokens_decoder: manyTokens });
    const hugeTemplate = await config('huge-template', { chat_template: 'x'.repeat(300_000) });
    const folders = [builtinModelPath(), large, broken, longTemplate, brokenTemplate, largeConfig, hugeTemplate];
    const { stdout } = await promisify(execFile)(process.execPath, [join(dist, 'main.js'), ...folders]);
    const { tokenizer, chatTemplate } = await loadModelFolder(builtinModelPath());
    const ids = [...tokenizer.encode('Hello there, <|im_end|> caf\u00e9')];
    const said = [...ids, chatTemplate?.render({ messages: [{ role: 'user', content: 'hi' }], nowMs: 0 })];
    const refusal = await loadModelFolder(brokenTemplate).catch((error: Error) => error.message);
    expect(refusal).toContain('not supported: Unexpected token: CloseStatement');
    const answers = JSON.parse(stdout) as unknown[];
    expect(answers.splice(3)).toEqual([
      { said: [...ids, 'hi'], threads: 1 },
      { said: refusal, threads: 1 },
      { said, threads: 1 },
      { said: expect.stringContaining('tokenizer_config.json: chat_template has 300002 characters'), threads: 1 },
    ]);
    expect(answers).toEqual([
      { said, threads: 0 },
      { said, threads: 1 },
      { said: expect.stringMatching(/tokenizer\.json: broken JSON \(.* at byte 6144\d\d\)/), threads: 1 },
    ]);
  });
});
