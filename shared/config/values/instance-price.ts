import { accept, oneText, refuse, type ValueType } from './value-type.ts';

/** Markets in which machines are bought, as their agents state them. */
const MARKETS = ['on-demand', 'spot', 'reservation', 'capacity-block'] as const;

/** Price of an hour of a machine. */
export interface InstancePrice {
  readonly type: string;
  readonly market: (typeof MARKETS)[number];
  /** US$. */
  readonly hourUsd: number;
}

const USD_MAX = 100_000;
const SHAPE = /^([a-z][a-z0-9-]{0,30}\.[a-z0-9-]{1,20})(?:\/([a-z-]+))?=(\d+(?:\.\d+)?)$/;

/** `TYPE=USD` for the on-demand price of an hour, or `TYPE/MARKET=USD`. */
export function instancePriceType(): ValueType<InstancePrice> {
  return oneText<InstancePrice>({
    name: 'price',
    allowed: 'TYPE[/MARKET]=USD',
    parse: (text) => {
      const [, type, given = 'on-demand', number] = SHAPE.exec(text) ?? [];
      const market = MARKETS.find((each) => each === given);
      if (type === undefined) return refuse('not like g6e.xlarge=1.86 or g6e.xlarge/spot=0.7');
      if (market === undefined) return refuse(`market ${given} is none of ${MARKETS.join(', ')}`);
      const hourUsd = Number(number);
      return hourUsd > USD_MAX ? refuse(`above ${USD_MAX}`) : accept({ type, market, hourUsd });
    },
    show: ({ type, market, hourUsd }) => `${type}/${market}=${hourUsd}`,
  });
}
