import { accept, oneText, refuse, type ValueType } from './value-type.ts';

/** Limits of a free text. */
export interface TextLimits {
  /** What the text means or looks like, in words. */
  readonly allowed?: string;
  readonly minLength?: number;
}

/** Any text but the empty one. */
export function textType(limits: TextLimits): ValueType<string> {
  const { minLength = 1 } = limits;
  return oneText({
    name: 'string',
    allowed: [limits.allowed, minLength > 1 ? `>= ${minLength} characters` : undefined].filter(Boolean).join(', '),
    parse: (text) => {
      if (text === '') return refuse('empty');
      return text.length < minLength ? refuse('too short') : accept(text);
    },
  });
}

/** A text that is never shown. */
export function secretType(limits: TextLimits): ValueType<string> {
  return { ...textType(limits), name: 'secret', isSecret: true, show: () => '***' };
}

const TRUE_WORDS = new Set(['1', 'true', 'yes', 'on']);
const FALSE_WORDS = new Set(['0', 'false', 'no', 'off', '']);

/** A switch. An empty variable is false. */
export function booleanType(): ValueType<boolean> {
  return {
    ...oneText<boolean>({
      name: 'bool',
      parse: (text) => {
        const word = text.trim().toLowerCase();
        if (TRUE_WORDS.has(word)) return accept(true);
        return FALSE_WORDS.has(word)
          ? accept(false)
          : refuse('not a boolean, use 1, true, yes, on or 0, false, no, off');
      },
    }),
    arity: 'switch',
    emptyIsValue: true,
  };
}

/** The path of a route. */
export function routeType(): ValueType<string> {
  return oneText({
    name: 'path',
    allowed: 'starts with /',
    parse: (text) => {
      if (!text.startsWith('/')) return refuse('does not start with /');
      return /[\s?#]/.test(text) ? refuse('contains a blank, ? or #') : accept(text);
    },
  });
}

/** Which URLs a setting takes. */
export interface UrlLimits {
  /** Schemes without the colon; all when absent. */
  readonly schemes?: readonly string[];
}

function checkUrl(text: string, schemes: readonly string[] | undefined): string | undefined {
  if (!URL.canParse(text)) return 'not a URL';
  const scheme = new URL(text).protocol.slice(0, -1);
  return schemes === undefined || schemes.includes(scheme) ? undefined : `scheme ${scheme} is not one of the allowed`;
}

/** A URL without the password that it may carry. */
export function hideUrlPassword(text: string): string {
  return text.replace(/(\/\/[^/@\s:]*):[^/@\s]*@/g, '$1:***@');
}

/** An absolute URL. */
export function urlType(limits: UrlLimits): ValueType<string> {
  return oneText({
    name: 'URL',
    allowed: limits.schemes?.join(', ') ?? '',
    parse: (text) => {
      const fault = checkUrl(text.trim(), limits.schemes);
      return fault === undefined ? accept(text.trim()) : refuse(fault);
    },
    show: hideUrlPassword,
  });
}

/** Absolute URLs, separated by commas or blanks. */
export function urlListType(limits: UrlLimits): ValueType<readonly string[]> {
  return {
    name: 'URL list',
    allowed: limits.schemes?.join(', ') ?? '',
    arity: 'many',
    isSecret: false,
    emptyIsValue: false,
    parse: (texts) => {
      const urls = texts.flatMap((text) => text.split(/[\s,]+/)).filter((text) => text !== '');
      const fault = urls.map((url) => checkUrl(url, limits.schemes)).find((found) => found !== undefined);
      return fault === undefined ? accept(urls) : refuse(fault);
    },
    show: (urls) => urls.map(hideUrlPassword).join(','),
  };
}

const LOG_LEVELS = new Set(['error', 'warn', 'info', 'debug', 'trace', 'off']);

/** A log filter: a default level and levels of targets, e.g. `info,router=debug`. */
export function logFilterType(): ValueType<string> {
  return oneText({
    name: 'filter',
    allowed: 'level,target=level,... with levels error, warn, info, debug, trace, off',
    parse: (text) => {
      const wrong = text.split(',').find(
        (part) =>
          !LOG_LEVELS.has(
            part
              .slice(part.indexOf('=') + 1)
              .trim()
              .toLowerCase(),
          ),
      );
      return wrong === undefined ? accept(text) : refuse(`${JSON.stringify(wrong)} has no level`);
    },
  });
}

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
