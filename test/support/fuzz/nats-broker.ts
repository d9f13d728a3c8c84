import type { Socket } from 'node:net';
import { encodeMessage } from '../../../shared/planes/request/nats/channel.ts';
import { hostileEnvelope } from './event-parts.ts';
import type { HostileValues } from './hostile-values.ts';
import { frame } from './parts.ts';
import { flood, type RawServer, startRawServer } from './raw-server.ts';

const INFO = { server_id: 'a', version: '2.10.0', proto: 1, headers: true, max_payload: 1 << 20, jetstream: true };
const GARBAGE_BYTES_MAX = 4 << 20;
const FLOOD_MAX = 5000;
const LIES_MAX = 30;

const GREETINGS: readonly ((values: HostileValues) => string | Buffer)[] = [
  (values) => values.bytes(2000),
  (values) => Buffer.alloc(values.random.below(GARBAGE_BYTES_MAX), 0x49),
  (values) => `INFO ${values.brokenText(INFO)}\r\n`,
  (values) => `INFO ${JSON.stringify(values.json())}\r\n`,
];

/** Starts a NATS server that lies at any point. Most connections begin well, so that later steps are reached. */
export function startHostileNats(values: HostileValues): Promise<RawServer> {
  return startRawServer((socket) => {
    const greeting = values.random.below(20);
    if (greeting === 0) return; // no greeting at all
    if (greeting <= GREETINGS.length) socket.write(GREETINGS[greeting - 1]?.(values) ?? '');
    if (greeting <= GREETINGS.length) return;
    socket.write(info(values, values.chance(0.3)));
    new Liar(socket, values).start();
  });
}

function info(values: HostileValues, isSpoilt: boolean): string {
  const urls = values.one([['', 'a b:1', '::', 'x:99999999', 'u:p@h:1'], ['[::1]:1', 'ok:4222'], values.json(), []]);
  const spoilt = {
    max_payload: values.one([0, -1, 1, 13, 2 ** 60, 'x', null, 0.5]),
    connect_urls: urls,
    nonce: values.json(),
    ldm: values.json(),
  };
  const name = values.one(Object.keys(spoilt) as (keyof typeof spoilt)[]);
  return `INFO ${JSON.stringify(isSpoilt ? { ...INFO, [name]: spoilt[name] } : INFO)}\r\n`;
}

/** One connection after the greeting. */
class Liar {
  readonly #socket: Socket;
  readonly #values: HostileValues;
  readonly #answersPings: boolean;
  /** Subscriptions of the client, by subject. */
  readonly #sids = new Map<string, string>();
  #lies = 0;

  constructor(socket: Socket, values: HostileValues) {
    this.#socket = socket;
    this.#values = values;
    this.#answersPings = values.chance(0.95);
  }

  start(): void {
    this.#socket.on('data', (chunk) => {
      for (const line of chunk.toString('latin1').split('\r\n')) this.#read(line);
      if (this.#sids.size > 0 && this.#lies++ < LIES_MAX && !this.#socket.destroyed) this.#lie();
    });
  }

  #read(line: string): void {
    const [operation, subject = '', second = '', third] = line.split(' ');
    if (operation === 'PING' && this.#answersPings) this.#write('PONG\r\n');
    if (operation === 'SUB') this.#sids.set(subject, third ?? second);
    if (operation === 'PUB' && third !== undefined) this.#answer(subject, second);
  }

  /** Sends the answer that the client awaits on `reply`. */
  #answer(subject: string, reply: string): void {
    const values = this.#values;
    const [, sid] = [...this.#sids].find(([heard]) => reply.startsWith(heard.replace(/[*>]$/, ''))) ?? [];
    if (sid === undefined || values.chance(0.2)) return;
    const state = { messages: values.json(), first_seq: values.json(), last_seq: values.json() };
    const stream = { type: values.text(), config: { subjects: [values.text()] }, created: values.text(), state };
    const told = values.one([
      values.json(),
      stream,
      { error: values.json() },
      { error: { code: 404, err_code: 10059 } },
    ]);
    const isFrames = !subject.startsWith('$JS') && values.chance(0.8);
    const body = isFrames ? this.#channelMessage() : Buffer.from(JSON.stringify(told) ?? '');
    this.#message(reply, sid, isFrames ? `_INBOX.x.${values.random.below(3)}` : '', body);
  }

  #channelMessage(): Buffer {
    const values = this.#values;
    const kind = values.one([1, 1, 1, 2, 3] as const);
    const consumed = values.one([0, 100, 2 ** 31, 2 ** 32 - 1, values.random.below(2000)]);
    return encodeMessage(kind, values.one([0, 0, 1, 2 ** 32 - 1]), consumed, frame(values));
  }

  #lie(): void {
    const values = this.#values;
    const [subject = 'x', sid = '1'] = values.one([...this.#sids]);
    const inbox = subject.replace(/[*>]$/, 'x');
    const write = (text: string | Buffer): void => this.#write(text);
    const message = (to: string, reply: string, body: Buffer): void => this.#message(inbox, to, reply, body);
    const garbage = (): Buffer => Buffer.alloc(values.random.below(GARBAGE_BYTES_MAX), values.one([0x90, 0xc1, 0x7b]));
    const replies = ['', '$JS.ACK.a.b.c', '$JS.ACK.s.c.1.2.3.4.5'];
    values.one([
      () => write(`MSG ${inbox} ${sid} ${values.one([2 ** 31, '9'.repeat(30), -1, '', 'x', 1e9])}\r\nabc`),
      () => message(String(values.random.below(1000)), '', values.bytes(500)),
      () => write(Array.from({ length: 20 }, () => info(values, true)).join('')),
      () => write('PING\r\n'.repeat(values.random.below(FLOOD_MAX))),
      () => write(`-ERR '${values.one(['Permissions Violation for Subscription to "x"', values.text()])}'\r\n`),
      () => void this.#socket.end(`MSG ${inbox} ${sid} 1000\r\nabc`),
      () => write(`HMSG ${inbox} ${sid} ${values.random.below(99)} ${values.random.below(99)}\r\n${values.text()}\r\n`),
      () => write(values.bytes(300)),
      () =>
        write(
          `HMSG ${inbox} ${sid} r.x 28 28\r\nNATS/1.0 ${values.one([503, 404, 999])} ${'x'.repeat(11)}\r\n\r\n\r\n`,
        ),
      () => {
        write(values.one([`MSG ${inbox} ${sid} 999999999\r\n`, 'INFO {', `MSG ${inbox} ${sid} 1\r\n`]));
        flood(this.#socket);
      },
      () => message(sid, '', garbage()),
      () => write(`MSG ${inbox} ${sid} 1\r\nx\r\n`.repeat(values.random.below(FLOOD_MAX))),
      () => message(sid, 'r', this.#channelMessage()),
      () => write('+OK\r\nPONG\r\nPONG\r\n'),
      () => message(sid, values.one(replies), hostileEnvelope(values)),
    ])();
  }

  #message(subject: string, sid: string, reply: string, body: Buffer): void {
    this.#write(`MSG ${subject} ${sid} ${reply === '' ? '' : `${reply} `}${body.length}\r\n`);
    this.#write(body);
    this.#write('\r\n');
  }

  #write(bytes: string | Buffer): void {
    if (!this.#socket.destroyed) this.#socket.write(bytes);
  }
}
