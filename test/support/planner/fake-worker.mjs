// A worker as `stator local` knows it: says that it serves, and ends when its parent lets go of it.
process.once('disconnect', () => process.exit(0));
process.send?.({ kind: 'ready' }, undefined, {}, () => {}); // fails where the parent has just let go
if (!process.connected) process.exit(0);
