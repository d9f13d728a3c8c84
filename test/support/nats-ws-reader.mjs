// Reads with the stock `nats.ws`, like a third-party program: one event of a subject, live and from the log, and one
// object of a bucket. Prints a line of JSON for each, with bytes in base64.
import { connect } from 'nats.ws';

const [url, subject, stream, bucket, object] = process.argv.slice(2);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const base64 = (bytes) => Buffer.from(bytes).toString('base64');

const connection = await connect({ servers: url, timeout: 5000 });
const events = connection.subscribe(subject, { max: 1 });
await connection.flush();
say({ ready: process.version });
for await (const { data } of events) say({ live: base64(data) });
const jetstream = connection.jetstream();
const consumer = await jetstream.consumers.get(stream);
const logged = await consumer.next({ expires: 5000 });
say({ logged: base64(logged.data), sequence: logged.seq });
const objects = await jetstream.views.os(bucket);
say({ object: base64(await objects.getBlob(object)) });
await connection.close();
