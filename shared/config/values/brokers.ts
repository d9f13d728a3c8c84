import { accept, oneText, refuse, type ValueType } from './value-type.ts';

/** Addresses of message brokers: where publishers connect, and where subscribers do. */
export interface BrokerAddresses {
  readonly xsub: readonly string[];
  readonly xpub: readonly string[];
}

const ENDPOINT = /^(tcp:\/\/[^\s:/]+:\d{1,5}|tcp:\/\/\[[0-9a-fA-F:]+\]:\d{1,5}|ipc:\/\/\S+)$/;

/** `xsub=URL;URL , xpub=URL;URL`, in any order. */
export function brokersType(): ValueType<BrokerAddresses> {
  return oneText<BrokerAddresses>({
    name: 'string',
    allowed: 'xsub=URL;URL , xpub=URL;URL',
    parse: (text) => {
      const sides: { xsub: string[]; xpub: string[] } = { xsub: [], xpub: [] };
      for (const part of text.split(',').map((each) => each.trim())) {
        const [side, urls = ''] = part.split('=', 2);
        if (side !== 'xsub' && side !== 'xpub') return refuse(`${JSON.stringify(part)} is not xsub=... or xpub=...`);
        for (const endpoint of urls.split(';').map((each) => each.trim())) {
          if (!ENDPOINT.test(endpoint))
            return refuse(`${JSON.stringify(endpoint)} is not tcp://HOST:PORT or ipc://PATH`);
          sides[side].push(endpoint);
        }
      }
      if (sides.xsub.length === 0) return refuse('has no xsub=...');
      return sides.xpub.length === 0 ? refuse('has no xpub=...') : accept(sides);
    },
    show: ({ xsub, xpub }) => `xsub=${xsub.join(';')} , xpub=${xpub.join(';')}`,
  });
}
