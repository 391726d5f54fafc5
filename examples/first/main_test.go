package main

func Example() {
	main()
	// Output:
	// fib(30) = 832040
	// 999 squared is 998001
	// 10 words
}
