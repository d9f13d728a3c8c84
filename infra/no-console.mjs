// Stands in for the console's code in the bundle of a function: only servers that stay have a console.
throw new Error('a function has no console');
