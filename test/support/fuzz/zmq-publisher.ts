import type { Socket } from 'node:net';
import { u64Bytes } from '../../../shared/planes/event/envelope.ts';
import { hostileEnvelope } from './event-parts.ts';
import type { HostileValues } from './hostile-values.ts';
import { flood, type RawServer, startRawServer } from './raw-server.ts';

const PATIENCE_MS = 20;
const MESSAGES_MAX = 40;
const PARTS_MAX = 2000;
const HUGE_BYTES = 2 << 20;

/**
 * Starts a publisher of events that speaks ZMTP (3.0, without security) and lies: in its greeting, its lengths or its
 * messages.
 */
export function startHostileZmq(values: HostileValues, publisherId: string): Promise<RawServer> {
  return startRawServer((socket) => {
    socket.on('data', () => {}); // greeting, command and subscriptions of the other side
    socket.write(greeting(values));
    socket.write(values.chance(0.1) ? values.bytes(100) : ready(values));
    setTimeout(() => tellLies(socket, values, publisherId), PATIENCE_MS).unref();
  });
}

/** Returns a greeting: signature, version 3.0, mechanism NULL, no server. */
function greeting(values: HostileValues): Buffer {
  const bytes = Buffer.alloc(64);
  bytes.set([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]);
  bytes.write('NULL', 12, 'latin1');
  const spoilt = values.random.below(20);
  if (spoilt === 0) return values.bytes(200);
  if (spoilt === 1) bytes[10] = values.random.below(256);
  if (spoilt === 2) bytes.write('PLAIN', 12, 'latin1');
  return spoilt === 3 ? bytes.subarray(0, values.random.below(64)) : bytes;
}

function ready(values: HostileValues): Buffer {
  const kind = values.chance(0.05) ? values.one(['ROUTER', '', 'SUB']) : 'PUB';
  const name = 'Socket-Type';
  const length = Buffer.alloc(4);
  length.writeUInt32BE(values.chance(0.05) ? 2 ** 31 : kind.length);
  const body = Buffer.concat([Buffer.from('\x05READY', 'latin1'), Buffer.of(name.length), Buffer.from(name), length]);
  return framed(Buffer.concat([body, Buffer.from(kind)]), 4);
}

/**
 * @param flags 1 = more frames follow, 4 = command
 */
function framed(body: Buffer, flags: number, claimed = body.length): Buffer {
  const head = Buffer.concat([Buffer.of(flags | 2), u64Bytes(BigInt(claimed))]);
  return Buffer.concat([head, body]);
}

function tellLies(socket: Socket, values: HostileValues, publisherId: string): void {
  for (let count = values.random.below(MESSAGES_MAX); count >= 0 && !socket.destroyed; count--) {
    socket.write(lie(values, publisherId, MESSAGES_MAX - count));
  }
  if (values.chance(0.2)) {
    socket.write(Buffer.concat([framed(Buffer.from('kv-events'), 1), framed(Buffer.alloc(0), 0, 2 ** 30)]));
    flood(socket);
  } else if (values.chance(0.5)) socket.destroy();
}

function lie(values: HostileValues, publisherId: string, sequence: number): Buffer {
  const key = framed(Buffer.from('kv-events'), 1);
  switch (values.random.below(10)) {
    case 0:
      return framed(values.bytes(50), values.random.below(8), values.one([2 ** 40, 2 ** 53, 2 ** 31]));
    case 1:
      return framed(Buffer.from('kv-events'), 0);
    case 2:
      return Buffer.concat([
        key,
        ...Array.from({ length: values.random.below(PARTS_MAX) }, () => framed(values.bytes(4), 1)),
        framed(Buffer.alloc(0), 0),
      ]);
    case 3:
      return Buffer.concat([
        key,
        framed(values.bytes(20), 1),
        framed(values.bytes(20), 1),
        framed(values.bytes(99), 0),
      ]);
    case 4:
      return values.bytes(300);
    case 5:
      return Buffer.concat([key, framed(Buffer.alloc(values.random.below(HUGE_BYTES), values.one([0x90, 0xdd])), 0)]);
    case 6:
      return framed(values.bytes(100), 4);
    default: {
      const record = hostileEnvelope(values);
      const header = Buffer.of(1, 0, 0, 0, 0);
      header.writeUInt32BE(values.chance(0.05) ? 7 : record.length, 1);
      const ids = [u64Bytes(BigInt(`0x${publisherId}`)), u64Bytes(values.chance(0.1) ? 2n ** 63n : BigInt(sequence))];
      return Buffer.concat([key, ...ids.map((id) => framed(id, 1)), framed(Buffer.concat([header, record]), 0)]);
    }
  }
}
