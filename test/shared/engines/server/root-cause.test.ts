import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { RootCause } from '../../../../shared/engines/server/root-cause.ts';

const FOLDER = new URL('../../../fixtures/engines/failed-starts/', import.meta.url);

/** What each output of a start that failed should be read to say, at its beginning. */
const CAUSES: Readonly<Record<string, string>> = {
  'vllm-0.20.2-port.txt': "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:29381')",
  'vllm-0.32.0-memory.txt':
    "ValueError: To serve at least one request with the model's max seq len (8192), (0.01 GiB KV cache",
  'vllm-0.32.0-weights.txt':
    'safetensors._safetensors_rust.SafetensorError: Error while deserializing header: invalid header length',
  'vllm-0.32.0-arch.txt':
    'pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig Value error, Model architectures ' +
    "['QuxForCausalLM'] are not supported for now.",
  'vllm-0.32.0-nomodel.txt':
    'huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder',
  'vllm-0.32.0-badchoice.txt': "argument --kv-cache-dtype: invalid choice: 'nonsense' (choose from 'auto', 'bfloat16'",
  'vllm-0.32.0-badvalue.txt': "argument --max-model-len: invalid human_readable_int_or_auto value: 'twelve'",
  'vllm-memory-of-two-devices.txt':
    'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 23.55 GiB',
  'vllm-chained.txt':
    'ValueError: The checkpoint you are trying to load has model type `qux5` but Transformers does not',
  'vllm-killed-by-a-library.txt': 'CUDA error: no kernel image is available for execution on the device',
  'sglang-memory.txt': 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 616.00 MiB. GPU 1 has',
  'sglang-port.txt':
    'torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address.',
};

describe('why an engine ended', () => {
  it.each(readdirSync(FOLDER))('is what its innermost process said first: %s', (name) => {
    const found = causeOf(readFileSync(new URL(name, FOLDER), 'utf8').split('\n'));
    expect(found).toMatch(/^[^\n]{1,1003}$/);
    expect(found?.slice(0, CAUSES[name]?.length)).toBe(CAUSES[name]);
  });

  it('is not what it survived long ago', () => {
    const survived = [
      'ERROR 06-09 14:01:54 [a.py:1] request failed',
      'Traceback (most recent call last):',
      'ValueError: bad',
    ];
    expect(causeOf(survived)).toBe('ValueError: bad');
    const later = Array.from({ length: 3000 }, (_, at) => `INFO step ${at}`);
    expect(causeOf([...survived, ...later])).toBeUndefined();
  });

  it('is nothing where it said nothing', () => {
    expect(causeOf(['INFO loading', 'WARNING slow'])).toBeUndefined();
  });

  it('takes no more room however much it says', () => {
    const cause = new RootCause();
    for (let at = 0; at < 20_000; at++) {
      cause.read(`(Worker pid=${at}) ERROR 06-09 14:01:54 [a.py:1] Traceback (most recent call last):`);
      cause.read(`(Worker pid=${at}) ValueError: ${'x'.repeat(2000)}`);
    }
    expect(cause.find()?.length).toBeLessThan(1100);
  });
});

function causeOf(lines: readonly string[]): string | undefined {
  const cause = new RootCause();
  for (const line of lines) cause.read(line);
  return cause.find();
}
