import { accept, oneText, refuse, type ValueType } from './value-type.ts';

/** Price of a model's tokens, in US$ for a million. */
export interface TokenPrice {
  /** Name under which requests of the model are listed. */
  readonly model: string;
  /** Price of prompt tokens that no worker had cached. */
  readonly inputUsd: number;
  readonly outputUsd: number;
  /** Price of cached prompt tokens. @default that of other prompt tokens */
  readonly cachedUsd: number;
}

const USD_MAX = 100_000;
const SHAPE = /^(.+)=(\d+(?:\.\d+)?)\/(\d+(?:\.\d+)?)(?:\/(\d+(?:\.\d+)?))?$/;

/** `MODEL=IN/OUT` for the prices of a million input and output tokens, or `MODEL=IN/OUT/CACHED`. */
export function tokenPriceType(): ValueType<TokenPrice> {
  return oneText<TokenPrice>({
    name: 'price',
    allowed: 'MODEL=IN/OUT[/CACHED]',
    parse: (text) => {
      const [, model, input, output, cached = input] = SHAPE.exec(text) ?? [];
      if (model === undefined) return refuse('not like my-model=0.5/1.5 or my-model=0.5/1.5/0.05');
      const [inputUsd, outputUsd, cachedUsd] = [Number(input), Number(output), Number(cached)];
      if (Math.max(inputUsd, outputUsd, cachedUsd) > USD_MAX) return refuse(`above ${USD_MAX}`);
      return accept({ model, inputUsd, outputUsd, cachedUsd });
    },
    show: ({ model, inputUsd, outputUsd, cachedUsd }) => `${model}=${inputUsd}/${outputUsd}/${cachedUsd}`,
  });
}
