// The server of an SGLang of one release.

import { sendEvent, sendJson, serve, tokens } from './http.mjs';
import { KvCache } from './kv-cache.mjs';
import { KvPublisher } from './kv-publisher.mjs';
import { CommandLine, refuseUnknown } from './release.mjs';

export async function startSglang(release, args) {
  const line = new CommandLine(args);
  refuseUnknown('launch_server.py', release, line);
  const server = new SglangServer(release, line);
  await server.openRanks();
  await serve(server.routes(), line.count(30000, '--port'));
}

class SglangServer {
  ranks = [];
  adapters = new Set();
  aborted = new Set();
  running = 0;

  constructor(release, line) {
    this.release = release;
    this.line = line;
    this.model = line.value('--served-model-name');
    this.pageSize = line.count(1, '--page-size');
    this.config = JSON.parse(line.value('--kv-events-config') ?? '{}');
  }

  async openRanks() {
    for (let rank = 0; rank < this.line.count(1, '--dp-size', '--data-parallel-size'); rank++) {
      const publisher = this.config.publisher === 'zmq' ? new KvPublisher(this.release, this.config, rank) : undefined;
      await publisher?.open();
      this.ranks.push(new KvCache(publisher, this.pageSize, { isSigned: true }));
    }
    if (process.env.FAKE_EARLY) this.ranks[0].holdEarly();
  }

  routes() {
    const text = (says) => (_, response) => response.end(says);
    const all = {
      '/health': text(''),
      '/v1/models': (_, response) => sendJson(response, { data: [{ id: this.model, max_model_len: 4096 }] }),
      '/model_info': (_, response) => sendJson(response, this.#modelInfo()),
      '/server_info': (_, response) => sendJson(response, this.#serverInfo()),
      '/metrics': (_, response) => response.end(this.#metrics()),
      '/generate': (body, response) => this.#generate(body, response),
      '/abort_request': ({ rid }, response) => {
        this.aborted.add(rid);
        response.end();
      },
      '/flush_cache': (_, response) => this.#flush(response),
      '/release_memory_occupation': (_, response) => this.#flush(response),
      '/resume_memory_occupation': text(''),
      '/load_lora_adapter': ({ lora_name: name }, response) => {
        this.adapters.add(name);
        sendJson(response, { success: true, loaded_adapters: {} });
      },
      '/unload_lora_adapter': ({ lora_name: name }, response) => {
        this.adapters.delete(name);
        sendJson(response, { success: true, loaded_adapters: {} });
      },
    };
    const open = Object.fromEntries(Object.entries(all).filter(([path]) => this.release.routes.includes(path)));
    const schemas = { GenerateReqInput: { properties: { cache_salt: {}, extra_key: {} } } };
    open['/openapi.json'] = (_, response) => sendJson(response, { components: { schemas } });
    return open;
  }

  #modelInfo() {
    return { model_path: this.line.value('--model-path'), served_model_name: this.model, is_generation: true };
  }

  #serverInfo() {
    const { endpoint, replay_endpoint: replay, topic } = this.config;
    const portOf = (address) => Number(/\d+$/.exec(address)?.[0]);
    const described = {
      publisher: 'zmq',
      endpoint_host: /^tcp:\/\/(.*):\d+$/.exec(endpoint ?? '')?.[1],
      endpoint_port_base: portOf(endpoint),
      topic,
      block_size: this.pageSize,
      dp_size: this.ranks.length,
      ...(this.release.describesReplay && replay !== undefined ? { replay_endpoint_port_base: portOf(replay) } : {}),
    };
    return {
      version: this.release.release,
      page_size: this.pageSize,
      max_running_requests: this.line.count(48, '--max-running-requests'),
      max_prefill_tokens: this.line.count(16384, '--max-prefill-tokens'),
      dp_size: this.ranks.length,
      max_total_num_tokens: 64 * this.pageSize,
      kv_events_config: this.line.value('--kv-events-config'),
      kv_events: endpoint === undefined ? null : described,
      disable_radix_cache: false,
    };
  }

  #metrics() {
    const values = { num_running_reqs: this.running, num_queue_reqs: 0, token_usage: 0.5 };
    const gauges = Object.entries(values).filter(([name]) => this.release.metrics.includes(`sglang:${name}`));
    const [latency] = this.release.metrics.filter((name) => name.endsWith('_seconds'));
    const lines = this.ranks.flatMap((_, rank) => [
      ...gauges.map(([name, value]) => `sglang:${name}{dp_rank="${rank}"} ${value}`),
      `${latency}_sum{dp_rank="${rank}"} 0.5`,
      `${latency}_count{dp_rank="${rank}"} 0.5`,
    ]);
    return `${lines.join('\n')}\n`;
  }

  async #generate(body, response) {
    const { input_ids: prompt, sampling_params: sampling, rid, stream } = body;
    const cached = this.#take(body);
    const count = sampling.max_new_tokens ?? 128;
    const meta = (total, isOver) => ({
      id: rid,
      finish_reason: isOver ? { type: 'length', length: count } : null,
      prompt_tokens: prompt.length,
      completion_tokens: total,
      cached_tokens: cached,
      ...(body.return_logprob === true ? this.#logprobs(prompt, total) : {}),
    });
    if (stream !== true) {
      const ids = Array.from({ length: count }, (_, at) => 100 + at);
      sendJson(response, { text: 'x', output_ids: ids, meta_info: meta(count, true) });
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    this.running++;
    const all = [];
    const isIncremental = this.line.has('--incremental-streaming-output');
    for await (const id of tokens(count, response, () => this.aborted.has(rid))) {
      all.push(id);
      const ids = isIncremental ? [id] : [...all];
      sendEvent(response, { text: 'x', output_ids: ids, meta_info: meta(all.length, all.length === count) });
    }
    this.running--;
    sendEvent(response, '[DONE]');
    response.end();
  }

  #logprobs(prompt, total) {
    return {
      input_token_logprobs: prompt.map((id, at) => [at === 0 ? null : -0.5, id, null]),
      output_token_logprobs: Array.from({ length: total }, (_, at) => [-0.5, 100 + at, null]),
    };
  }

  #take({ input_ids: prompt, lora_path: adapter, cache_salt: salt, data_parallel_rank: rank = 0 }) {
    const told = { cache_salt: salt, lora_name: adapter };
    return this.ranks[rank].take([...prompt], [adapter, salt], told);
  }

  #flush(response) {
    if (this.running > 0) {
      response.writeHead(400).end('Flush cache failed.\n');
      return;
    }
    for (const rank of this.ranks) rank.clear();
    response.end();
  }
}
