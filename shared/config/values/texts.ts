import { accept, oneText, type Parsed, refuse, type ValueType } from './value-type.ts';
import { hideSecrets } from './words.ts';

/** Limits of a free text. */
export interface TextLimits {
  /** Meaning or form of the text, in words. */
  readonly allowed?: string;
  readonly minLength?: number;
}

/** Accepts any text except the empty one. */
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

/** Limits of the URLs that a setting accepts. */
export interface UrlLimits {
  /** Schemes without the colon; if absent, all are accepted. */
  readonly schemes?: readonly string[];
}

/** Pattern of `host:port`, which people write, but which reads as a URL of the scheme `host`. */
const HOST_AND_PORT = /^(?:\[[\da-f:.]+\]|[a-z\d](?:[\w.-]*[a-z\d])?):\d{1,5}(?:[/?#]|$)/i;

function readUrl(text: string, limits: UrlLimits): Parsed<string> {
  const { schemes = ['http'] } = limits;
  if (HOST_AND_PORT.test(text)) {
    if (schemes.every((scheme) => scheme.startsWith('http'))) return readUrl(`http://${text}`, limits);
    return refuse(`has no scheme, write ${schemes[0]}://${text}`);
  }
  return readWholeUrl(text, limits);
}

function readWholeUrl(text: string, { schemes }: UrlLimits): Parsed<string> {
  if (!URL.canParse(text)) return refuse('not a URL');
  const scheme = new URL(text).protocol.slice(0, -1);
  const isAllowed = schemes === undefined || schemes.includes(scheme);
  return isAllowed ? accept(text) : refuse(`scheme ${scheme} is not allowed`);
}

/** Returns a URL without the password that it may contain. */
export function hideUrlPassword(text: string): string {
  return text.replace(/(\/\/[^/@\s:]*):[^/@\s]*@/g, '$1:***@');
}

/** An absolute URL. */
export function urlType(limits: UrlLimits): ValueType<string> {
  return oneText({
    name: 'URL',
    allowed: limits.schemes?.join(', ') ?? '',
    parse: (text) => readUrl(text.trim(), limits),
    show: hideUrlPassword,
  });
}

/** Takes all texts of a repeated flag. */
const MANY = { arity: 'many', isSecret: false, emptyIsValue: false } as const;

/** Absolute URLs, separated by commas or blanks. */
export function urlListType(limits: UrlLimits): ValueType<readonly string[]> {
  return {
    name: 'URL list',
    allowed: limits.schemes?.join(', ') ?? '',
    ...MANY,
    parse: (texts) => readEach(texts, (text) => readUrl(text, limits)),
    show: (urls) => urls.map(hideUrlPassword).join(','),
  };
}

/** Addresses of message brokers: those to which publishers connect, and those to which subscribers connect. */
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

/** `NAME=VALUE,NAME=VALUE`; a percent sign and two digits stand for a byte. */
export function attributesType(): ValueType<Readonly<Record<string, string>>> {
  return oneText<Readonly<Record<string, string>>>({
    name: 'string',
    allowed: 'NAME=VALUE,...',
    parse: (text) => {
      const attributes: Record<string, string> = {};
      for (const part of text.split(',').filter((each) => each.trim() !== '')) {
        const at = part.indexOf('=');
        const name = part.slice(0, at).trim();
        if (at < 0 || name === '') return refuse(`${JSON.stringify(part.trim())} is not NAME=VALUE`);
        const value = decoded(part.slice(at + 1).trim());
        if (value === undefined) return refuse(`the value of ${name} is not valid percent-encoding`);
        Object.defineProperty(attributes, name, { value, enumerable: true, configurable: true }); // also __proto__
      }
      return accept(attributes);
    },
    show: (attributes) =>
      Object.entries(attributes)
        .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
        .join(','),
  });
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined; // the caller reports it with the name
  }
}

/** Values of an enumeration. */
export interface ChoiceLimits<E extends string> {
  readonly values: readonly E[];
  /** Names that are known only to be refused, each with the reason, e.g. `is not built yet`. */
  readonly refused?: Readonly<Record<string, string>>;
  /** Other spellings of a value. */
  readonly synonyms?: Readonly<Record<string, E>>;
}

/** Makes hyphen and underscore equal in a value. */
function fold(text: string): string {
  return text.trim().replaceAll('_', '-');
}

function pick<E extends string>(text: string, limits: ChoiceLimits<E>): Parsed<E> {
  const wanted = fold(text);
  const synonym = Object.entries(limits.synonyms ?? {}).find(([spelling]) => fold(spelling) === wanted);
  const value = limits.values.find((candidate) => fold(candidate) === wanted) ?? synonym?.[1];
  if (value !== undefined) return accept(value);
  const reason =
    limits.refused === undefined ? undefined : Object.entries(limits.refused).find(([name]) => fold(name) === wanted);
  return refuse(reason === undefined ? 'unknown value' : reason[1]);
}

function refusedBy({ refused }: Pick<ChoiceLimits<string>, 'refused'>): Pick<ValueType<unknown>, 'refused'> {
  return refused === undefined ? {} : { refused };
}

/** One of a few words. */
export function choiceType<E extends string>(limits: ChoiceLimits<E>): ValueType<E> {
  return {
    ...oneText({ name: 'enum', allowed: limits.values.join(', '), parse: (text) => pick(text, limits) }),
    ...refusedBy(limits),
  };
}

/** Some of a few words, separated by commas or blanks. */
export function choiceListType<E extends string>(limits: ChoiceLimits<E>): ValueType<readonly E[]> {
  return {
    ...listType({}),
    allowed: limits.values.join(', '),
    ...refusedBy(limits),
    parse: (texts) => readEach(texts, (text) => pick(text, limits)),
  };
}

/** Form of a list. */
export interface ListLimits {
  readonly allowed?: string;
  /** Whether each text is one element, including commas and blanks. */
  readonly unsplit?: true;
}

function splitList(texts: readonly string[]): readonly string[] {
  return texts.flatMap((text) => text.split(/[\s,]+/)).filter((text) => text !== '');
}

/** Returns the values of all elements, or what is wrong with the first bad one. */
function readEach<T>(texts: readonly string[], read: (text: string) => Parsed<T>): Parsed<readonly T[]> {
  const values: T[] = [];
  for (const text of splitList(texts)) {
    const parsed = read(text);
    if (!parsed.ok) return parsed;
    values.push(parsed.value);
  }
  return accept(values);
}

/** Texts, separated by commas or blanks; a repeated flag appends. */
export function listType(limits: ListLimits): ValueType<readonly string[]> {
  return {
    name: 'list',
    allowed: limits.allowed ?? '',
    ...MANY,
    parse: (texts) => accept(limits.unsplit === true ? texts.filter((text) => text !== '') : splitList(texts)),
    show: (values) => values.join(','),
  };
}

/** Values of `element`, separated by commas or blanks. */
export function listOfType<T>(element: ValueType<T>, name: string): ValueType<readonly T[]> {
  return {
    name,
    allowed: element.allowed,
    ...MANY,
    parse: (texts, around) =>
      readEach(texts, (text) => {
        const parsed = element.parse([text], around);
        return parsed.ok ? parsed : refuse(`${text} is ${parsed.fault}`);
      }),
    show: (values) => values.map((value) => element.show(value)).join(','),
  };
}

/** The arguments after `--`, as they are. */
export function restType(): ValueType<readonly string[]> {
  return {
    ...listType({}),
    name: 'arguments',
    arity: 'rest',
    parse: (texts) => accept(texts),
    show: (values) => hideSecrets(values).join(' '),
  };
}
