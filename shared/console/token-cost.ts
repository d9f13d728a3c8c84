import type { TokenPrice } from '../config/index.ts';
import type { ConsoleTokenPrice } from './wire/fleet.ts';

const MILLION = 1_000_000;

/** Prices that the operator has stated, by the primary name of the model. */
export type TokenPrices = ReadonlyMap<string, ConsoleTokenPrice>;

/** Tokens of one request. */
interface CountedTokens {
  /** All tokens of the prompt. */
  readonly prompt: number;
  /** Tokens of the prompt that a worker had cached. */
  readonly cached: number;
  readonly output: number;
}

/** Returns the prices by model, as the page gets them. */
export function tokenPricesBy(prices: readonly TokenPrice[]): TokenPrices {
  return new Map(
    prices.map(({ model, inputUsd, outputUsd, cachedUsd }) => [
      model,
      { input_usd: inputUsd, output_usd: outputUsd, cached_usd: cachedUsd },
    ]),
  );
}

/** Returns what tokens cost, in US$. */
export function costOfTokens(price: ConsoleTokenPrice, { prompt, cached, output }: CountedTokens): number {
  const [input, known] = [Math.max(0, prompt - cached), Math.min(prompt, cached)];
  return (input * price.input_usd + known * price.cached_usd + output * price.output_usd) / MILLION;
}
