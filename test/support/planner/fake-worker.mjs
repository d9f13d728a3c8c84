// A worker as `stator local` knows it: says that it serves, and ends when its parent lets go of it.
process.once('disconnect', () => process.exit(0));
if (process.connected) process.send({ kind: 'ready' }, undefined, {}, () => {}); // fails where the parent has just let go
else process.exit(0);
