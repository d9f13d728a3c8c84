import { createHash } from 'node:crypto';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { builtinModelPath } from '../../shared/artifacts/index.ts';
import { type LoadedModel, loadModelFolder } from '../../shared/tokens/index.ts';
import { FakePublisher } from '../shared/engines/kv-stream/fake-publisher.ts';

const BLOCK_TOKENS = 16;
const ON = { enable_kv_cache_events: true, publisher: 'zmq' };
const PLACEHOLDER = '<|image|>';
const PLACEHOLDER_ID = 1792;
const TEMPLATE =
  "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'image' %}" +
  `${PLACEHOLDER}{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}` +
  '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';

/** A folder with a model that sees: its tokenizer has a placeholder, which its template writes for each picture. */
export function writeSeeingModel(folder: string): void {
  cpSync(builtinModelPath(), folder, { recursive: true });
  const edit = (name: string, change: (file: Record<string, unknown>) => object): void => {
    const path = join(folder, name);
    writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')))));
  };
  const added = { id: PLACEHOLDER_ID, content: PLACEHOLDER, special: true, normalized: false };
  const flags = { single_word: false, lstrip: false, rstrip: false };
  edit('tokenizer.json', (file) => ({
    ...file,
    added_tokens: [...(file.added_tokens as object[]), { ...added, ...flags }],
  }));
  edit('tokenizer_config.json', (file) => ({ ...file, chat_template: TEMPLATE }));
}

interface Picture {
  readonly uuid: string;
  readonly url: string;
}

type Part = {
  readonly type: string;
  readonly text?: string;
  readonly image_url?: { url: string };
  readonly uuid: string;
};
type Message = { readonly role: string; readonly content: string | readonly Part[] };
type Asked = {
  readonly prompt?: readonly number[];
  readonly messages?: readonly Message[];
  readonly stream?: boolean;
  readonly return_token_ids?: boolean;
};

/**
 * A stand-in for vLLM with a model that sees. It renders chats itself and makes tokens of pictures by their size. It
 * publishes events of its cache as vLLM does, with the pictures in the extra keys of their blocks.
 */
export class VisionEngine {
  /** Pictures by their path, for the processes that fetch them. */
  readonly pictures = new Map<string, Buffer>();
  /** Bodies of its two routes, in order. */
  readonly asked: (Asked & { readonly path: string })[] = [];
  readonly #publisher = new FakePublisher();
  readonly #held = new Set<string>();
  readonly #server: Server = createServer((request, response) => void this.#serve(request, response));
  #model: LoadedModel | undefined;

  async start(folder: string): Promise<string> {
    this.#model = await loadModelFolder(folder);
    await this.#publisher.open();
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this.url;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#publisher.close();
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    const picture = this.pictures.get(path);
    if (picture !== undefined) return void response.setHeader('content-type', 'image/png').end(picture);
    const bodies: Buffer[] = [];
    for await (const part of request) bodies.push(part as Buffer);
    if (request.method === 'POST') return this.#generate(path, JSON.parse(Buffer.concat(bodies).toString()), response);
    sendJson(response, this.#factsAt(path));
  }

  #factsAt(path: string): object | string {
    const metrics = `vllm:cache_config_info{block_size="${BLOCK_TOKENS}",num_gpu_blocks="10000",enable_prefix_caching="True"} 1\n`;
    switch (path) {
      case '/v1/models':
        return { data: [{ id: 'eyes', max_model_len: 8192 }] };
      case '/metrics':
        return metrics;
      case '/kv_event_sources': {
        const everywhere = (endpoint: string): string => endpoint.replace('127.0.0.1', '*');
        const { endpoint, replayEndpoint } = this.#publisher;
        return {
          0: { endpoint: everywhere(endpoint), replay_endpoint: everywhere(replayEndpoint), topic: 'kv-events', ...ON },
        };
      }
      default:
        return {};
    }
  }

  async #generate(path: string, body: Asked, response: ServerResponse): Promise<void> {
    this.asked.push({ ...body, path });
    const { tokens, pictures } = body.messages === undefined ? plain(body.prompt ?? []) : this.#render(body.messages);
    const cached = await this.#store(tokens, pictures);
    const usage = {
      prompt_tokens: tokens.length,
      completion_tokens: 1,
      total_tokens: tokens.length + 1,
      prompt_tokens_details: { cached_tokens: cached },
    };
    const ids = body.return_token_ids === true ? { prompt_token_ids: tokens } : {};
    const own = body.return_token_ids === true ? { token_ids: [5] } : {};
    if (path === '/v1/completions') {
      const choices = [{ index: 0, text: 'x', token_ids: [5], finish_reason: 'length' }];
      return body.stream === true ? stream(response, [{ choices, usage }]) : sendJson(response, { choices, usage });
    }
    const head = { id: 'x', created: 1, model: 'eyes' };
    if (body.stream !== true) {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'a cat' }, finish_reason: 'stop', ...own }];
      return sendJson(response, { ...head, object: 'chat.completion', choices, usage, ...ids });
    }
    const chunk = { ...head, object: 'chat.completion.chunk' };
    stream(response, [
      { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content: '' } }], ...ids },
      { ...chunk, choices: [{ index: 0, delta: { content: 'a cat' }, finish_reason: 'stop', ...own }] },
      { ...chunk, choices: [], usage },
    ]);
  }

  #render(messages: readonly Message[]): { tokens: readonly number[]; pictures: readonly Placed[] } {
    const { chatTemplate, tokenizer } = this.#model!;
    const named: Picture[] = [];
    const shown = messages.map(({ role, content }) => {
      if (typeof content === 'string') return { role, content };
      return {
        role,
        content: content.map((part) => {
          if (part.type !== 'image_url') return part;
          named.push({ uuid: part.uuid, url: part.image_url?.url ?? '' });
          return { type: 'image' };
        }),
      };
    });
    const text = chatTemplate!.render({ messages: shown as never, addGenerationPrompt: true, nowMs: 0 } as never);
    const tokens: number[] = [];
    const pictures: Placed[] = [];
    for (const id of tokenizer.encode(text)) {
      const picture = id === PLACEHOLDER_ID ? named[pictures.length] : undefined;
      if (picture === undefined) {
        tokens.push(id);
        continue;
      }
      const length = 100 + (picture.url.length % 97);
      pictures.push({ uuid: picture.uuid, start: tokens.length, end: tokens.length + length });
      for (let at = 0; at < length; at++) tokens.push(PLACEHOLDER_ID);
    }
    return { tokens, pictures };
  }

  /** Caches the prompt's blocks and publishes the new ones. @returns number of tokens that were cached already */
  async #store(tokens: readonly number[], pictures: readonly Placed[]): Promise<number> {
    let parent: bigint | null = null;
    let cached = 0;
    const events: object[] = [];
    for (let start = 0; start + BLOCK_TOKENS <= tokens.length; start += BLOCK_TOKENS) {
      const end = start + BLOCK_TOKENS;
      const ids = tokens.slice(start, end);
      const keys = pictures
        .filter((each) => each.start < end && each.end > start)
        .map((each) => [each.uuid, each.start - start]);
      const hash = hashOf([String(parent), ids, keys]);
      if (this.#held.has(`${hash}`)) cached = end;
      else {
        const extra = keys.length === 0 ? null : keys;
        events.push({
          type: 'BlockStored',
          block_hashes: [hash],
          parent_block_hash: parent,
          token_ids: ids,
          block_size: BLOCK_TOKENS,
          lora_id: null,
          medium: 'GPU',
          lora_name: null,
          extra_keys: [extra],
        });
      }
      this.#held.add(`${hash}`);
      parent = hash;
    }
    if (events.length > 0) await this.#publisher.publish(events);
    return cached;
  }
}

interface Placed {
  readonly uuid: string;
  readonly start: number;
  readonly end: number;
}

function plain(prompt: readonly number[]): { tokens: readonly number[]; pictures: readonly Placed[] } {
  return { tokens: prompt, pictures: [] };
}

function hashOf(value: unknown): bigint {
  return createHash('sha256').update(JSON.stringify(value)).digest().readBigUInt64BE();
}

function sendJson(response: ServerResponse, body: object | string): void {
  const isText = typeof body === 'string';
  response.setHeader('content-type', isText ? 'text/plain' : 'application/json');
  response.end(isText ? body : JSON.stringify(body));
}

function stream(response: ServerResponse, chunks: readonly object[]): void {
  response.setHeader('content-type', 'text/event-stream');
  for (const chunk of chunks) response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  response.end('data: [DONE]\n\n');
}
