module github.com/seed53057037/heist/verify

go 1.26
