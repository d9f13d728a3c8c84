import { XXH3_CODE } from './xxh3-code.ts';

/** First byte of the module's memory for callers: the hash's own data lie below it. */
export const FREE = 512;

/** Members of WebAssembly that are used here. Its types belong to the browser's, which the compiler does not load. */
interface WasmRuntime {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: Readonly<Record<string, unknown>> };
}
const { WebAssembly: wasm } = globalThis as unknown as { readonly WebAssembly: WasmRuntime };

/** Exports of `wasm/xxh3.ts`. Positions are bytes of the memory. */
export interface Xxh3Module {
  /** 320 KiB; never grows. */
  readonly memory: Uint8Array;
  hashBlocks(
    input: number,
    count: number,
    windowBytes: number,
    strideBytes: number,
    seedLow: number,
    seedHigh: number,
    output: number,
  ): void;
  chain(
    input: number,
    count: number,
    parentLow: number,
    parentHigh: number,
    output: number,
    seedLow: number,
    seedHigh: number,
  ): void;
}

/** Starts the module, in less than a millisecond. */
export function createXxh3Module(): Xxh3Module {
  const { exports } = new wasm.Instance(new wasm.Module(Buffer.from(XXH3_CODE, 'base64')));
  return {
    memory: new Uint8Array((exports.memory as { readonly buffer: ArrayBuffer }).buffer),
    hashBlocks: exports.hashBlocks as Xxh3Module['hashBlocks'],
    chain: exports.chain as Xxh3Module['chain'],
  };
}
