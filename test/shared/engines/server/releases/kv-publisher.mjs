// Publishes the KV events of one rank as the release does: layout, fields, topic, replay.
import { Packr } from 'msgpackr';
import { Router, XPublisher } from 'zeromq';

const packr = new Packr({ useRecords: false });
const END = Buffer.alloc(8, 0xff);
/** Longest wait for a subscriber. Engines drop earlier events, so that tests would depend on how fast it connects. */
const SUBSCRIBER_MS_MAX = 2000;

export class KvPublisher {
  #publisher = new XPublisher({ linger: 0, reconnectInterval: 10, receiveTimeout: SUBSCRIBER_MS_MAX });
  #subscriber;
  #sending = Promise.resolve();
  #router = new Router({ linger: 0 });
  #buffer = [];
  #sequence = 0;

  constructor({ events }, config, rank) {
    this.layout = events;
    this.config = config;
    this.rank = rank;
  }

  async open() {
    const endpoint = ofRank(this.config.endpoint, this.rank);
    if (/\*|::/.test(endpoint)) await this.#publisher.bind(endpoint);
    else this.#publisher.connect(endpoint);
    if (this.config.replay_endpoint === undefined) return;
    await this.#router.bind(ofRank(this.config.replay_endpoint, this.rank));
    void this.#replay();
  }

  /** Remembers a batch for a replay, and does not publish it. */
  keep(events) {
    return this.#number(events);
  }

  publish(events) {
    if (process.env.FAKE_SILENT) return; // loads and serves, and publishes nothing
    const [sequence, payload] = this.#number(events);
    this.#sending = this.#sending.then(async () => {
      this.#subscriber ??= this.#publisher.receive().catch(() => undefined); // no subscriber: the event is lost
      await this.#subscriber;
      await this.#publisher.send([this.config.topic ?? '', sequence, payload]);
    });
  }

  #number(events) {
    const payload = packr.pack([Date.now() / 1000, events.map((event) => this.#spell(event)), this.rank]);
    const sequence = eight(this.#sequence++);
    this.#buffer.push([sequence, payload]);
    return [sequence, payload];
  }

  /** Returns the fields that the release knows, by place or by name, without unset ones that have a default. */
  #spell({ type, ...values }) {
    const names = type === 'BlockStored' ? this.layout.stored : type === 'BlockRemoved' ? this.layout.removed : [];
    if (this.layout.layout === 'array') {
      const last = names.findLastIndex((name) => values[name] !== undefined);
      return [type, ...names.slice(0, last + 1).map((name) => values[name] ?? null)];
    }
    const known = names.filter((name) => values[name] !== undefined).map((name) => [name, values[name]]);
    return { type, ...Object.fromEntries(known) };
  }

  async #replay() {
    const topic = this.layout.replayHasTopic ? [this.config.topic ?? ''] : [];
    for (;;) {
      const [identity, , start] = await this.#router.receive();
      for (const [sequence, payload] of this.#buffer) {
        if (sequence.compare(start) >= 0) await this.#router.send([identity, '', ...topic, sequence, payload]);
      }
      await this.#router.send([identity, '', ...topic.map(() => ''), END, '']);
    }
  }
}

function ofRank(endpoint, rank) {
  return endpoint.replace(/\d+$/, (port) => String(Number(port) + rank));
}

function eight(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}
