/** How long the parts of a pass take on the modelled GPU. */
export interface TimingModel {
  /** Time to prefill `tokens` uncached prompt tokens in one pass. 0 when nothing prefills. */
  prefillMs(tokens: number): number;
  /**
   * Time of one decode step of sequences that hold `contextTokens` together, each `meanContextTokens`, in a KV cache of
   * `capacityTokens`. At least 1 ms.
   */
  decodeMs(contextTokens: number, meanContextTokens: number, capacityTokens: number): number;
}

/** How fast a mock engine runs. */
export interface SpeedUp {
  /** How much faster than the modelled GPU. 1 = as fast; 0 reads as 1, as in Dynamo. */
  readonly speedupRatio: number;
  /** Multiplies `speedupRatio` for decoding. */
  readonly decodeSpeedupRatio: number;
  /** @default Dynamo's mock engine's polynomials */
  readonly timing?: TimingModel | undefined;
}

/** Time to prefill `tokens` uncached prompt tokens in one pass. 0 when nothing prefills. */
export function prefillMs(tokens: number): number {
  if (tokens <= 0) return 0;
  return 4.209989e-7 * tokens * tokens + 1.518344e-2 * tokens + 16.50142;
}

/** Time of one decode step when the decoding sequences fill the share `usage` (0 to 1) of the KV cache. At least 1 ms. */
export function decodeMs(usage: number): number {
  const share = Math.min(usage, 1);
  return Math.max(1, -25.74 * share * share + 54.01 * share + 5.74);
}

const POLYNOMIALS: TimingModel = {
  prefillMs,
  decodeMs: (contextTokens, _, capacityTokens) => decodeMs(contextTokens / capacityTokens),
};

/** What a pass has to do, in tokens. */
export interface PassWork {
  /** Requests that prefill in the pass. */
  prefills: number;
  /** Sum of their prompt positions before the pass. */
  prefillStart: number;
  /** Sum of their prompt positions after the pass. */
  prefillEnd: number;
  /** Requests that decode in the pass. */
  decodes: number;
  /** Sum of the context lengths of the decoding requests. */
  decodeContext: number;
}

/** Duration of a pass. Prefill lengths are averaged with integer division, as the reference does. */
export function passMs(work: PassWork, capacityTokens: number, speed: SpeedUp): number {
  const { timing = POLYNOMIALS } = speed;
  const speedup = speed.speedupRatio || 1;
  let durationMs = 0;
  if (work.prefills > 0) {
    const k = work.prefills;
    const tokens = k * (Math.floor(work.prefillEnd / k) - Math.floor(work.prefillStart / k));
    durationMs += timing.prefillMs(tokens) / speedup;
  }
  if (work.decodes > 0) {
    const stepMs = timing.decodeMs(work.decodeContext, work.decodeContext / work.decodes, capacityTokens);
    durationMs += stepMs / (speedup * (speed.decodeSpeedupRatio || 1));
  }
  return durationMs;
}
