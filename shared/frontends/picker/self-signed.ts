import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** Tags of the parts of a certificate, in DER. */
const TAG = {
  integer: 0x02,
  bits: 0x03,
  bytes: 0x04,
  oid: 0x06,
  text: 0x0c,
  utcTime: 0x17,
  time: 0x18,
  sequence: 0x30,
  set: 0x31,
  dnsName: 0x82,
  version: 0xa0,
  extensions: 0xa3,
} as const;

const ECDSA_WITH_SHA256 = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME = [0x55, 0x04, 0x03];
const SUBJECT_ALT_NAME = [0x55, 0x1d, 0x11];

const DAY_MS = 86_400_000;
/** Time for which a certificate is valid, in days. A process has its own, so none is ever renewed. */
const VALID_DAYS = 3650;
/** Year from which times in certificates have four digits of the year. */
const LONG_YEAR = 2050;

/**
 * Creates a certificate that no authority has signed, with its key, as PEM texts. It encrypts a connection; clients
 * must not expect it to prove whose server they have reached.
 * @param name host name in the certificate
 * @param wallMs the present, in Unix ms
 */
export function createSelfSigned(name: string, wallMs: number): { readonly cert: string; readonly key: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = der(TAG.sequence, der(TAG.oid, Buffer.from(ECDSA_WITH_SHA256)));
  const subject = nameOf(name);
  const body = der(
    TAG.sequence,
    der(TAG.version, der(TAG.integer, Buffer.of(2))), // the third version
    der(TAG.integer, Buffer.concat([Buffer.of(1), randomBytes(8)])), // the first byte keeps it positive
    algorithm,
    subject,
    der(TAG.sequence, timeOf(wallMs - DAY_MS), timeOf(wallMs + VALID_DAYS * DAY_MS)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(TAG.extensions, der(TAG.sequence, alternativeName(name))),
  );
  const signature = der(TAG.bits, Buffer.of(0), sign('sha256', body, privateKey));
  const lines = der(TAG.sequence, body, algorithm, signature).toString('base64').replace(/.{64}/g, '$&\n');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

function nameOf(name: string): Buffer {
  const pair = der(TAG.sequence, der(TAG.oid, Buffer.from(COMMON_NAME)), der(TAG.text, Buffer.from(name)));
  return der(TAG.sequence, der(TAG.set, pair));
}

function alternativeName(name: string): Buffer {
  const names = der(TAG.sequence, der(TAG.dnsName, Buffer.from(name)));
  return der(TAG.sequence, der(TAG.oid, Buffer.from(SUBJECT_ALT_NAME)), der(TAG.bytes, names));
}

function timeOf(wallMs: number): Buffer {
  const digits = new Date(wallMs).toISOString().replace(/\.\d+|[-:T]/g, ''); // 20261129104500Z
  const isLong = Number(digits.slice(0, 4)) >= LONG_YEAR;
  return isLong ? der(TAG.time, Buffer.from(digits)) : der(TAG.utcTime, Buffer.from(digits.slice(2)));
}

/** Returns a value with its tag and its length. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const value = Buffer.concat(parts);
  return Buffer.concat([Buffer.of(tag, ...lengthOf(value.length)), value]);
}

function lengthOf(bytes: number): readonly number[] {
  if (bytes < 0x80) return [bytes];
  return bytes < 0x100 ? [0x81, bytes] : [0x82, bytes >> 8, bytes & 0xff];
}
