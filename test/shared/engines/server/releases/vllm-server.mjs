// The server of a vLLM of one release.

import { sendEvent, sendJson, serve, tokens } from './http.mjs';
import { KvCache } from './kv-cache.mjs';
import { KvPublisher } from './kv-publisher.mjs';
import { CommandLine, refuseUnknown } from './release.mjs';

export async function startVllm(release, args) {
  const line = new CommandLine(args.slice(args.indexOf('serve') + 1));
  refuseUnknown('vllm', release, line);
  const ranks = line.count(1, '--data-parallel-size', '-dp');
  const servers = line.count(ranks, '--api-server-count', '-asc');
  if (process.env.VLLM_ALLOW_RUNTIME_LORA_UPDATING === 'True' && servers > 1) {
    console.error('ValueError: VLLM_ALLOW_RUNTIME_LORA_UPDATING cannot be used with api_server_count > 1');
    process.exit(1);
  }
  const server = new VllmServer(release, line);
  await server.openRanks();
  await serve(server.routes(), line.count(8000, '--port'));
}

class VllmServer {
  ranks = [];
  adapters = new Map();
  running = 0;
  isAsleep = false;

  constructor(release, line) {
    this.release = release;
    this.line = line;
    this.model = line.value('--served-model-name') ?? line.args[0];
    this.blockSize = line.count(16, '--block-size');
    this.config = JSON.parse(line.value('--kv-events-config') ?? '{}');
  }

  async openRanks() {
    for (let rank = 0; rank < this.line.count(1, '--data-parallel-size', '-dp'); rank++) {
      const publisher = this.config.enable_kv_cache_events
        ? new KvPublisher(this.release, this.config, rank)
        : undefined;
      await publisher?.open();
      this.ranks.push(new KvCache(publisher, this.blockSize, { isSigned: false }));
    }
    if (process.env.FAKE_EARLY) this.ranks[0].holdEarly();
  }

  /** Those of the release that this command line opens. */
  routes() {
    const all = {
      '/health': (_, response) => response.writeHead(200).end(),
      '/version': (_, response) => sendJson(response, { version: this.release.release }),
      '/v1/models': (_, response) => sendJson(response, { data: this.#models() }),
      '/metrics': (_, response) => response.end(this.#metrics()),
      '/server_info': (_, response, request) => sendJson(response, this.#serverInfo(request)),
      '/kv_event_sources': (_, response) => sendJson(response, this.#sources()),
      '/inference/v1/generate': (body, response, request) => this.#generate(body, response, request),
      '/v1/completions': (body, response, request) => this.#complete(body, response, request),
      '/reset_prefix_cache': (_, response) => this.#reset(response),
      '/sleep': (_, response) => this.#setAsleep(true, response),
      '/wake_up': (_, response) => this.#setAsleep(false, response),
      '/v1/load_lora_adapter': (body, response) => this.#load(body, response),
      '/v1/unload_lora_adapter': (body, response) => this.#unload(body, response),
    };
    const has = Object.entries(all).filter(([path]) => this.release.routes.includes(path) && this.#isOpen(path));
    const open = Object.fromEntries(has);
    const paths = Object.fromEntries(Object.keys(open).map((path) => [path, {}]));
    open['/openapi.json'] = (_, response) => sendJson(response, { paths });
    return open;
  }

  #isOpen(path) {
    const { generateNeeds } = this.release;
    if (path === '/inference/v1/generate') return generateNeeds === null || this.line.has(generateNeeds);
    if (/lora/.test(path)) return process.env.VLLM_ALLOW_RUNTIME_LORA_UPDATING === 'True';
    return !/^\/(reset_|sleep|wake|server_info)/.test(path) || process.env.VLLM_SERVER_DEV_MODE === '1';
  }

  #models() {
    const base = { id: this.model, root: this.line.args[0], parent: null, max_model_len: 4096 };
    return [base, ...[...this.adapters].map(([id, root]) => ({ id, root, parent: this.model }))];
  }

  #metrics() {
    const values = {
      'vllm:num_requests_running': this.running,
      'vllm:num_requests_waiting': 0,
      'vllm:kv_cache_usage_perc': 0.5,
      'vllm:gpu_cache_usage_perc': 0.5,
      'vllm:inter_token_latency_seconds': 0.5,
      'vllm:time_per_output_token_seconds': 0.5,
    };
    const lines = this.release.metrics
      .filter((name) => name in values)
      .flatMap((name) =>
        this.ranks.flatMap((_, rank) => {
          const parts = name.endsWith('_seconds') ? ['_sum', '_count'] : [''];
          return parts.map((part) => `${name}${part}{engine="${rank}",model_name="${this.model}"} ${values[name]}`);
        }),
      );
    const info = `block_size="${this.blockSize}",enable_prefix_caching="True",engine="0",num_gpu_blocks="64"`;
    return `vllm:cache_config_info{${info}} 1.0\n${lines.join('\n')}\n`;
  }

  /** As JSON where that is asked for, else as one text; what was not given the engine chooses. */
  #serverInfo({ url }) {
    const scheduler_config = {
      max_num_seqs: this.line.count(256, '--max-num-seqs'),
      max_num_batched_tokens: this.line.count(2048, '--max-num-batched-tokens'),
    };
    const isJson = url.endsWith('?config_format=json');
    return { vllm_config: isJson ? { scheduler_config } : 'model=...', vllm_env: {}, system_env: {} };
  }

  #sources() {
    const offset = (endpoint, rank) => endpoint?.replace(/\d+$/, (port) => String(Number(port) + rank));
    const ranks = this.config.enable_kv_cache_events ? this.ranks : [];
    return Object.fromEntries(
      ranks.map((_, rank) => {
        const { endpoint, replay_endpoint: replay } = this.config;
        return [rank, { ...this.config, endpoint: offset(endpoint, rank), replay_endpoint: offset(replay, rank) }];
      }),
    );
  }

  async #generate(body, response, request) {
    const { token_ids: prompt, sampling_params: sampling } = body;
    const cached = this.#take(prompt, this.release.generateTakesRank ? rankOf(request) : 0, body);
    const count = sampling.max_tokens ?? 16;
    const { answers } = this.release;
    const stop = answers.hasStopReason ? { stop_reason: null } : {};
    const choice = (ids, finish) => {
      return { index: 0, logprobs: this.#logprobs(ids, sampling), finish_reason: finish, ...stop, token_ids: ids };
    };
    const usage = this.#usage(prompt, count, cached);
    if (body.stream === true) {
      await this.#stream(count, response, choice, usage);
      return;
    }
    const prompts = sampling.prompt_logprobs === undefined ? null : prompt.map(() => null);
    const ids = Array.from({ length: count }, (_, at) => 100 + at);
    const whole = { request_id: body.request_id, choices: [choice(ids, 'length')], prompt_logprobs: prompts };
    sendJson(response, { ...whole, ...(answers.wholeHasUsage ? { usage } : {}), kv_transfer_params: null });
  }

  async #complete(body, response, request) {
    const cached = this.#take(body.prompt, rankOf(request), body);
    const count = body.max_tokens ?? 16;
    const usage = this.#usage(body.prompt, count, cached);
    const choice = (ids, finish) => {
      const logprobs = body.logprobs === undefined ? null : likelihoods(ids);
      return { index: 0, text: 'x', logprobs, finish_reason: finish, stop_reason: null, token_ids: ids };
    };
    const ids = Array.from({ length: count }, (_, at) => 100 + at);
    if (body.stream === true) await this.#stream(count, response, choice, usage);
    else sendJson(response, { choices: [choice(ids, 'length')], usage });
  }

  async #stream(count, response, choice, usage) {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    const rank = this.ranks[0];
    this.running++;
    rank.hold(1);
    let sent = 0;
    for await (const id of tokens(count, response)) {
      sent++;
      sendEvent(response, { choices: [choice([id], sent === count ? 'length' : null)], usage: null });
    }
    rank.hold(-1);
    this.running--;
    if (response.destroyed) return;
    sendEvent(response, { choices: [], usage });
    sendEvent(response, '[DONE]');
    response.end();
  }

  #logprobs(ids, { logprobs }) {
    if (logprobs === undefined || logprobs === null) return null;
    const one = (id) => {
      if (this.release.answers.logprobs === 'texts') return { token: `token_id:${id}`, logprob: -0.5, bytes: null };
      return { token_id: id, logprob: -0.5, rank: 1 };
    };
    return { content: ids.map((id) => ({ ...one(id), top_logprobs: [one(id)] })) };
  }

  #usage(prompt, count, cached) {
    const details =
      (cached === 0 && !this.release.answers.tellsNoneCached) || !this.line.has('--enable-prompt-tokens-details')
        ? {}
        : { prompt_tokens_details: { cached_tokens: cached } };
    return { prompt_tokens: prompt.length, total_tokens: prompt.length + count, completion_tokens: count, ...details };
  }

  #take(prompt, rank, { model = this.model, cache_salt: salt } = {}) {
    const adapter = this.adapters.has(model) ? model : undefined;
    const named = adapter === undefined ? [] : [adapter];
    const extraKeys = (isFirst) => {
      const keys = [...named, ...(isFirst && salt ? [salt] : [])];
      return keys.length === 0 ? null : keys;
    };
    const told = { lora_id: adapter === undefined ? null : 1, lora_name: adapter ?? null, extraKeys, group_idx: 0 };
    return this.ranks[rank].take([...prompt], [adapter, salt], told);
  }

  #reset(response) {
    const isDone = !this.ranks.some(({ isHeld }) => isHeld);
    if (isDone) for (const rank of this.ranks) rank.clear();
    if (this.release.answers.resetSaysSuccess) sendJson(response, { success: isDone });
    else response.writeHead(200).end();
  }

  #setAsleep(isAsleep, response) {
    this.isAsleep = isAsleep;
    if (isAsleep) for (const rank of this.ranks) rank.clear();
    response.writeHead(200).end();
  }

  #load({ lora_name: name, lora_path: path }, response) {
    if (this.adapters.has(name)) {
      const message = `The lora adapter '${name}' has already been loaded.`;
      sendJson(response, { error: { message, type: 'InvalidUserInput', param: null, code: 400 } }, 400);
      return;
    }
    this.adapters.set(name, path);
    response.end(`Success: LoRA adapter '${name}' added successfully.`);
  }

  #unload({ lora_name: name }, response) {
    if (this.adapters.delete(name)) response.end(`Success: LoRA adapter '${name}' removed successfully.`);
    else sendJson(response, { error: { message: `The lora adapter '${name}' cannot be found.`, code: 404 } }, 404);
  }
}

function rankOf({ headers }) {
  return Number(headers['x-data-parallel-rank'] ?? 0);
}

/** By text, as completions have them. */
function likelihoods(ids) {
  const tokens = ids.map((id) => `token_id:${id}`);
  return { tokens, token_logprobs: ids.map(() => -0.5), top_logprobs: tokens.map((token) => ({ [token]: -0.5 })) };
}
