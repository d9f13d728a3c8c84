import type { HostileValues } from './hostile-values.ts';

/* Values that appear in requests in place of expected ones. */

export const BAD_CODINGS = [
  'gzip, chunked',
  'chunked, chunked',
  'xchunked',
  'identity',
  'chunked;q=1',
  'chunked, gzip',
  '"chunked"',
  'chunked,',
  ',chunked',
  'chun ked',
  'gzip',
];
export const BAD_LENGTHS = [
  '-1',
  '+5',
  '5.0',
  '0x5',
  '5 5',
  '5, 5',
  '5,6',
  '1e3',
  'five',
  '99999999999999999999999',
  '5;',
  '',
];
export const BAD_SIZES = ['g', '-1', '0x5', '5 5', 'ffffffffffffffffff', '+5', '5.0', '', ' ', ';', '\0'];
export const LONG = (values: HostileValues): number => values.one([20_000, 100_000, 600_000]);

/** Bytes that are not UTF-8. */
export const BAD_UTF8 = [
  '\xff',
  '\xc3(',
  '\xc0\xaf',
  '\xed\xa0\x80',
  '\xed\xa0\x80\xed\xb0\x80',
  '\xf5\x80\x80\x80',
  '\xf8\x88\x80\x80\x80',
  '\x80',
  '\xe2\x82',
  '\xf0\x9f\x98',
  '\xfe\xff',
];

/** Other spellings of a byte that has a meaning in a path, and of bytes without one. */
export const SPELLINGS: readonly ((path: string) => string)[] = [
  (path) => `${path}/`,
  (path) => `/${path}`,
  (path) => path.replaceAll('/', '//'),
  (path) => path.toUpperCase(),
  (path) => path.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  (path) => path.replace(/.$/, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`),
  (path) => `/%2e%2e${path}`,
  (path) => `/.${path}`,
  (path) => `/x/..${path}`,
  (path) => `/x/%2e%2e${path}`,
  (path) => path.replaceAll('/', '%2f'),
  (path) => path.replaceAll('/', '\\'),
  (path) => `${path}%00`,
  (path) => `${path};a=b`,
  (path) => `${path}%`,
  (path) => `${path}%zz`,
  (path) => `${path}%c3%28`,
  (path) => `${path}%ed%a0%80`,
  (path) => `${path}?${'a=b&'.repeat(2000)}`,
  (path) => `${path}?__proto__[x]=1&constructor=%`,
  (path) => `${path}#fragment`,
  (path) => `${path}${'/a'.repeat(5000)}`,
  (path) => `${path}/${'%25'.repeat(4000)}`,
];
